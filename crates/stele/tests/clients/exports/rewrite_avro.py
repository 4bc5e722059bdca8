"""Writes the records of an Avro file to another one: IN OUT CODEC, by fastavro."""

import sys

import fastavro

source, target, codec = sys.argv[1:]
with open(source, "rb") as file, open(target, "wb") as out:
    reader = fastavro.reader(file)
    fastavro.writer(out, reader.writer_schema, reader, codec=codec, sync_interval=100)
