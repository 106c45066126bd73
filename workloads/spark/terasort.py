"""Records of 100 bytes with a key of ten, made and then sorted by Spark: terasort.py RECORDS."""

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as of

records = int(sys.argv[1])
spark = SparkSession.builder.appName("terasort").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
key = of.substring(of.md5(of.col("id").cast("string")), 1, 10).alias("key")
made = spark.range(records).select(key, of.lpad(of.col("id").cast("string"), 90, "x").alias("value"))
made.write.mode("overwrite").parquet("input")
begun = time.monotonic()
spark.read.parquet("input").sort("key").write.mode("overwrite").parquet("output")
seconds = time.monotonic() - begun
found = spark.read.parquet("output").count()
print(json.dumps({"roi_s": seconds, "records": found, "rounds_per_s": found / seconds}))
spark.stop()
sys.exit(found != records)
