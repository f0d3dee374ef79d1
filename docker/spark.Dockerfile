# Spark with the library installed, in the versions the project is tested with.
FROM python:3.12.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

# The versions first: they change less often than the code, and PySpark is the large layer.
COPY .ci/constraints.txt pyproject.toml /src/
RUN pip install --no-cache-dir --constraint /src/constraints.txt \
    "pyspark[sql]" confluent-kafka msgspec rocksdict sortedcontainers fastavro

COPY README.md LICENSE /src/
COPY logstate /src/logstate
COPY topology /src/topology
COPY changelog /src/changelog
RUN pip install --no-cache-dir --constraint /src/constraints.txt "/src[registry,spark,cli]" \
    && ln -s "$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')" /opt/spark

ENV SPARK_HOME=/opt/spark PATH=/opt/spark/bin:$PATH PYSPARK_PYTHON=python3
RUN useradd --create-home spark
USER spark
WORKDIR /home/spark
