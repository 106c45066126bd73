"""What many rooms need and no field has a word for: paths, TOML files, plugins, files that are replaced in one step."""
