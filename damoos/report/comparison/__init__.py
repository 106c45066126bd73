"""What stands beside each other, for people: configurations; the manual scheme and the tuned one."""
