/* Records between librdkafka and Python in batches, without an object of the client for each one.
 *
 * How it works: `bind` receives the addresses of librdkafka's functions. A `Queue` has a queue of
 * librdkafka to which the queues of assigned partitions are forwarded. `take` reads it as events,
 * with `rd_kafka_queue_poll`. `produce` passes records to `rd_kafka_producev`. Python's client ignores
 * the failed delivery of a record that it did not pass itself. So this module is also a plugin of
 * librdkafka (`conf_init`), whose interceptor notes failed deliveries of its records for
 * `take_failure`.
 *
 * Why events: errors are events as well, and no callback of the client is called, which would need
 * the client's own thread state; `rd_kafka_consume_batch_queue` calls one for some errors. And what
 * was fetched before a seek is dropped before it has any effect. `rd_kafka_consume_callback_queue`
 * first applies the position after a control record, and then drops it: after a pause, the
 * client would continue at that position and skip the records before it.
 *
 * Invariants:
 *
 * - No call waits. But Python may run code of another thread where a call makes objects, because
 *   that can start a garbage collection. So a queue that is in use is neither closed nor taken from
 *   (logstate.kafka.record_source makes `close` wait), and `produce` checks the client again after
 *   it called `count_of`.
 * - The client's `rd_kafka_t*` is its first field (logstate.kafka.librdkafka confirmed that before),
 *   and it is compared before every use. A closed client has a null pointer there.
 * - Everything that a record contains is copied before its message is destroyed.
 * - All structures and constants below are in librdkafka's public header, and part of its ABI.
 * - Interceptors run in threads of librdkafka, without the GIL. They use nothing of Python but a lock,
 *   which no other code holds while it waits. Without a failure they take no lock.
 */
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pythread.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --- librdkafka's public interface --------------------------------------------------------- */

/* rd_kafka_message_t */
typedef struct {
    int err;
    void *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_;
} message_t;

/* rd_kafka_topic_partition_t, its first fields */
typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
} topic_partition_t;

enum { EVENT_FETCH = 0x2, EVENT_ERROR = 0x8 };
enum { V_END = 0, V_RKT = 2, V_PARTITION = 3, V_VALUE = 4, V_KEY = 5, V_MSGFLAGS = 7, V_TIMESTAMP = 8 };
enum { FLAG_COPY = 2 };

/* rd_kafka_interceptor_f_on_new_t, ..._on_acknowledgement_t and ..._on_destroy_t */
typedef int on_new_t(void *rk, const void *conf, void *opaque, char *reason, size_t size);
typedef int on_acknowledgement_t(void *rk, message_t *message, void *opaque);
typedef int on_destroy_t(void *rk, void *opaque);

static struct functions {
    void *(*queue_new)(void *rk);
    void (*queue_destroy)(void *queue);
    void *(*queue_get_partition)(void *rk, const char *topic, int32_t partition);
    void *(*queue_get_consumer)(void *rk);
    void (*queue_forward)(void *from, void *to);
    void (*queue_io_event_enable)(void *queue, int fd, const void *payload, size_t size);
    void *(*queue_poll)(void *queue, int timeout_ms);
    int (*event_type)(const void *event);
    const message_t *(*event_message_next)(void *event);
    int (*event_error)(void *event);
    const char *(*event_error_string)(void *event);
    topic_partition_t *(*event_topic_partition)(void *event);
    void (*event_destroy)(void *event);
    void (*topic_partition_destroy)(topic_partition_t *place);
    const char *(*topic_name)(const void *topic);
    int64_t (*message_timestamp)(const message_t *message, int *type);
    int (*message_headers)(const message_t *message, void **headers);
    int (*header_get_all)(const void *headers, size_t at, const char **name, const void **value,
                          size_t *size);
    void *(*topic_new)(void *rk, const char *name, void *conf);
    void (*topic_destroy)(void *topic);
    int32_t (*msg_partitioner_murmur2)(const void *topic, const void *key, size_t size,
                                       int32_t count, void *topic_opaque, void *opaque);
    int (*producev)(void *rk, ...);
    const char *(*message_produce_errstr)(const message_t *message);
    int (*conf_interceptor_add_on_new)(void *conf, const char *name, on_new_t *on_new,
                                       void *opaque);
    int (*interceptor_add_on_acknowledgement)(void *rk, const char *name,
                                              on_acknowledgement_t *on_acknowledgement,
                                              void *opaque);
    int (*interceptor_add_on_destroy)(void *rk, const char *name, on_destroy_t *on_destroy,
                                      void *opaque);
} rdk;

static const struct {
    const char *name;
    size_t at;
} SLOTS[] = {
#define SLOT(name) {#name, offsetof(struct functions, name)}
    SLOT(queue_new), SLOT(queue_destroy), SLOT(queue_get_partition), SLOT(queue_get_consumer),
    SLOT(queue_forward), SLOT(queue_io_event_enable), SLOT(queue_poll), SLOT(event_type),
    SLOT(event_message_next), SLOT(event_error), SLOT(event_error_string),
    SLOT(event_topic_partition), SLOT(event_destroy), SLOT(topic_partition_destroy),
    SLOT(topic_name), SLOT(message_timestamp), SLOT(message_headers), SLOT(header_get_all),
    SLOT(topic_new), SLOT(topic_destroy), SLOT(msg_partitioner_murmur2), SLOT(producev),
    SLOT(message_produce_errstr), SLOT(conf_interceptor_add_on_new),
    SLOT(interceptor_add_on_acknowledgement), SLOT(interceptor_add_on_destroy),
#undef SLOT
};
#define SLOT_COUNT (sizeof(SLOTS) / sizeof(SLOTS[0]))

static int is_bound = 0;

/* Set all functions from {name without "rd_kafka_": address}, or none. */
static PyObject *bind(PyObject *module, PyObject *addresses)
{
    void *found[SLOT_COUNT];
    size_t n;
    (void)module;
    if (!PyDict_Check(addresses)) {
        PyErr_SetString(PyExc_TypeError, "bind() takes a dict of addresses");
        return NULL;
    }
    for (n = 0; n < SLOT_COUNT; n++) {
        PyObject *address = PyDict_GetItemString(addresses, SLOTS[n].name);
        if (address == NULL) {
            PyErr_Format(PyExc_KeyError, "%s", SLOTS[n].name);
            return NULL;
        }
        found[n] = PyLong_AsVoidPtr(address);
        if (found[n] == NULL) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "%s has no address", SLOTS[n].name);
            return NULL;
        }
    }
    for (n = 0; n < SLOT_COUNT; n++)
        memcpy((char *)&rdk + SLOTS[n].at, &found[n], sizeof(found[n]));
    is_bound = 1;
    Py_RETURN_NONE;
}

/* Return the names of the functions that bind() needs. */
static PyObject *needed(PyObject *module, PyObject *unused)
{
    PyObject *names = PyList_New(0);
    size_t n;
    (void)module, (void)unused;
    for (n = 0; names != NULL && n < SLOT_COUNT; n++) {
        PyObject *name = PyUnicode_FromString(SLOTS[n].name);
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

/* Return whether the client object has this handle: not if it was closed. */
static int has_handle(PyObject *client, void *handle)
{
    void *found;
    memcpy(&found, (char *)client + sizeof(PyObject), sizeof(found));
    return handle != NULL && found == handle;
}

static int check_handle(PyObject *client, void *handle)
{
    if (!is_bound) {
        PyErr_SetString(PyExc_RuntimeError, "bind() was not called");
        return -1;
    }
    if (!has_handle(client, handle)) {
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
        return -1;
    }
    return 0;
}

static PyObject *new_reference(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* --- a fetched record ---------------------------------------------------------------------- */

/* It has no references to objects that could refer to it, so it takes no part in garbage
 * collection: that is one of the costs that it avoids. */
typedef struct {
    PyObject_HEAD
    PyObject *topic;
    PyObject *key;     /* bytes or None, as all that follow */
    PyObject *value;
    PyObject *headers; /* a list of (str, bytes or None) or None */
    int64_t offset;
    int64_t timestamp;
    int32_t partition;
    int timestamp_type;
} Record;

static PyTypeObject *record_type = NULL;

static void record_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    const Record *record = (Record *)self;
    Py_XDECREF(record->topic);
    Py_XDECREF(record->key);
    Py_XDECREF(record->value);
    Py_XDECREF(record->headers);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *record_topic(PyObject *self, PyObject *unused)
{
    (void)unused;
    return new_reference(((Record *)self)->topic);
}

static PyObject *record_partition(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(((Record *)self)->partition);
}

static PyObject *record_offset(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(((Record *)self)->offset);
}

static PyObject *record_key(PyObject *self, PyObject *unused)
{
    (void)unused;
    return new_reference(((Record *)self)->key);
}

static PyObject *record_value(PyObject *self, PyObject *unused)
{
    (void)unused;
    return new_reference(((Record *)self)->value);
}

static PyObject *record_headers(PyObject *self, PyObject *unused)
{
    (void)unused;
    return new_reference(((Record *)self)->headers);
}

/* Return a tuple of two objects whose references it takes over; NULL if one of them is NULL. */
static PyObject *pair(PyObject *first, PyObject *second)
{
    PyObject *made = first != NULL && second != NULL ? PyTuple_New(2) : NULL;
    if (made == NULL) {
        Py_XDECREF(first);
        Py_XDECREF(second);
        return NULL;
    }
    PyTuple_SetItem(made, 0, first);
    PyTuple_SetItem(made, 1, second);
    return made;
}

static PyObject *record_timestamp(PyObject *self, PyObject *unused)
{
    const Record *record = (Record *)self;
    (void)unused;
    return pair(PyLong_FromLong(record->timestamp_type), PyLong_FromLongLong(record->timestamp));
}

static PyMethodDef RECORD_METHODS[] = {
    {"topic", record_topic, METH_NOARGS, "The topic's name."},
    {"partition", record_partition, METH_NOARGS, "The partition's number."},
    {"offset", record_offset, METH_NOARGS, "The offset of this record."},
    {"key", record_key, METH_NOARGS, "The key's bytes, or None."},
    {"value", record_value, METH_NOARGS, "The value's bytes, or None."},
    {"timestamp", record_timestamp, METH_NOARGS,
     "The timestamp's type, and the timestamp in milliseconds."},
    {"headers", record_headers, METH_NOARGS, "A list of (name, value), or None."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot RECORD_SLOTS[] = {
    {Py_tp_dealloc, record_dealloc},
    {Py_tp_methods, RECORD_METHODS},
    {Py_tp_doc, "A fetched record (see logstate.contracts.records.FetchedRecord)."},
    {0, NULL},
};

static PyType_Spec RECORD_SPEC = {
    .name = "logstate.kafka.native._records.Record",
    .basicsize = sizeof(Record),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = RECORD_SLOTS,
};

/* Return a copy of the bytes; None for a null pointer. */
static PyObject *copied(const void *data, size_t size)
{
    if (data == NULL)
        return new_reference(Py_None);
    if (size > (size_t)PY_SSIZE_T_MAX)
        return PyErr_NoMemory();
    return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
}

/* Return text of librdkafka; malformed bytes become U+FFFD, as in the Java client. */
static PyObject *text(const char *data)
{
    if (data == NULL)
        return PyUnicode_FromString("");
    return PyUnicode_DecodeUTF8(data, (Py_ssize_t)strlen(data), "replace");
}

static PyObject *headers_of(const message_t *message)
{
    void *headers = NULL;
    const char *name;
    const void *value;
    size_t size, n;
    PyObject *list;
    if (rdk.message_headers(message, &headers) != 0 || headers == NULL)
        return new_reference(Py_None);
    list = PyList_New(0);
    for (n = 0; list != NULL && rdk.header_get_all(headers, n, &name, &value, &size) == 0; n++) {
        PyObject *header = pair(text(name), copied(value, size));
        if (header == NULL || PyList_Append(list, header) < 0)
            Py_CLEAR(list);
        Py_XDECREF(header);
    }
    return list;
}

static PyObject *record_of(const message_t *message, PyObject *topic)
{
    Record *record = PyObject_New(Record, record_type);
    if (record == NULL)
        return NULL;
    record->topic = new_reference(topic);
    record->offset = message->offset;
    record->partition = message->partition;
    record->timestamp_type = 0;
    record->timestamp = rdk.message_timestamp(message, &record->timestamp_type);
    record->key = copied(message->key, message->key_len);
    record->value = copied(message->payload, message->len);
    record->headers = headers_of(message);
    if (record->key == NULL || record->value == NULL || record->headers == NULL)
        Py_CLEAR(record); /* its deallocation accepts null pointers */
    return (PyObject *)record;
}

/* --- the queue of fetched records ---------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    PyObject *client; /* kept alive, so that the queue never outlives it */
    PyObject *partition_class;
    void *handle;
    void *queue; /* null once it is closed */
    int is_in_use; /* by `take` */
} Queue;

static PyTypeObject *queue_type = NULL;

/* Write one byte to a file descriptor when a queue is no longer empty; -1 ends that. */
static void notify(Queue *self, int fd)
{
    void *events = rdk.queue_get_consumer(self->handle);
    if (events != NULL) {
        rdk.queue_io_event_enable(events, fd, "1", 1);
        rdk.queue_destroy(events);
    }
    rdk.queue_io_event_enable(self->queue, fd, "1", 1);
}

static void release(Queue *self)
{
    /* If the client was closed before, its memory is gone: then the queue is not touched. */
    if (self->queue != NULL && has_handle(self->client, self->handle)) {
        notify(self, -1);
        rdk.queue_destroy(self->queue);
    }
    self->queue = NULL;
}

static int queue_traverse(PyObject *self, visitproc visit, void *arg)
{
    Queue *queue = (Queue *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(queue->client);
    Py_VISIT(queue->partition_class);
    return 0;
}

static int queue_clear(PyObject *self)
{
    Queue *queue = (Queue *)self;
    release(queue); /* first: it uses the client */
    Py_CLEAR(queue->client);
    Py_CLEAR(queue->partition_class);
    return 0;
}

static void queue_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    queue_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int check_open(Queue *self)
{
    if (self->queue == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the queue is closed");
        return -1;
    }
    return check_handle(self->client, self->handle);
}

static PyObject *queue_attach(PyObject *object, PyObject *args)
{
    Queue *self = (Queue *)object;
    const char *topic;
    int partition;
    void *found;
    if (!PyArg_ParseTuple(args, "si", &topic, &partition) || check_open(self) < 0)
        return NULL;
    found = rdk.queue_get_partition(self->handle, topic, (int32_t)partition);
    if (found == NULL)
        Py_RETURN_FALSE;
    rdk.queue_forward(found, self->queue);
    rdk.queue_destroy(found);
    Py_RETURN_TRUE;
}

static PyObject *queue_notify(PyObject *object, PyObject *args)
{
    Queue *self = (Queue *)object;
    int fd;
    if (!PyArg_ParseTuple(args, "i", &fd) || check_open(self) < 0)
        return NULL;
    if (fd < 0) {
        PyErr_SetString(PyExc_ValueError, "not a file descriptor");
        return NULL;
    }
    notify(self, fd);
    Py_RETURN_NONE;
}

static PyObject *queue_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (((Queue *)self)->is_in_use) {
        PyErr_SetString(PyExc_RuntimeError, "the queue is in use");
        return NULL;
    }
    queue_clear(self);
    Py_RETURN_NONE;
}

/* Kafka's limit of a topic's name is 249. */
enum { TOPIC_NAME_SIZE = 256 };

/* A batch while it is filled. */
typedef struct {
    Queue *queue;
    PyObject *records; /* dict: partition to list */
    PyObject *errors;  /* list */
    PyObject *list;    /* borrowed from records: of the last record's partition; null at first */
    PyObject *topic;   /* of the last record; null at first */
    char topic_name[TOPIC_NAME_SIZE]; /* of the last record */
    int32_t partition;                /* of the last record */
    Py_ssize_t left;
    int64_t bytes_left;
    int status; /* -1 after an exception */
} Batch;

/* Make `topic` and `list` those of the message. */
static int select_list(Batch *batch, const message_t *message, const char *topic_name)
{
    PyObject *number, *place = NULL;
    size_t size = strlen(topic_name);
    batch->list = NULL;
    if (size >= TOPIC_NAME_SIZE) {
        PyErr_SetString(PyExc_ValueError, "the name of a topic is too long");
        return -1;
    }
    if (batch->topic == NULL || strcmp(topic_name, batch->topic_name) != 0) {
        PyObject *topic = text(topic_name);
        if (topic == NULL)
            return -1;
        Py_XDECREF(batch->topic);
        batch->topic = topic;
        memcpy(batch->topic_name, topic_name, size + 1);
    }
    number = PyLong_FromLong(message->partition);
    if (number != NULL)
        place = PyObject_CallFunctionObjArgs(batch->queue->partition_class, batch->topic, number,
                                             NULL);
    Py_XDECREF(number);
    if (place == NULL)
        return -1;
    batch->list = PyDict_GetItemWithError(batch->records, place);
    if (batch->list == NULL && !PyErr_Occurred()) {
        PyObject *list = PyList_New(0);
        if (list != NULL && PyDict_SetItem(batch->records, place, list) == 0)
            batch->list = list;
        Py_XDECREF(list); /* the dict has a reference */
    }
    Py_DECREF(place);
    batch->partition = message->partition;
    return batch->list == NULL ? -1 : 0;
}

/* Add an error as (topic or None, partition, offset, code, text). */
static int add_error(Batch *batch, void *event)
{
    topic_partition_t *place = rdk.event_topic_partition(event);
    PyObject *topic, *reason, *error = NULL;
    int status = -1;
    topic = place == NULL ? new_reference(Py_None) : text(place->topic);
    reason = text(rdk.event_error_string(event));
    if (topic != NULL && reason != NULL)
        error = Py_BuildValue("(OiLiO)", topic, place == NULL ? -1 : (int)place->partition,
                              place == NULL ? -1LL : (long long)place->offset,
                              rdk.event_error(event), reason);
    if (error != NULL)
        status = PyList_Append(batch->errors, error);
    Py_XDECREF(error);
    Py_XDECREF(reason);
    Py_XDECREF(topic);
    if (place != NULL)
        rdk.topic_partition_destroy(place);
    return status;
}

static int add_record(Batch *batch, const message_t *message)
{
    const char *topic_name = message->rkt == NULL ? "" : rdk.topic_name(message->rkt);
    PyObject *record;
    int status;
    if ((batch->list == NULL || message->partition != batch->partition
         || strcmp(topic_name, batch->topic_name) != 0)
        && select_list(batch, message, topic_name) < 0)
        return -1;
    record = record_of(message, batch->topic);
    if (record == NULL)
        return -1;
    batch->bytes_left -= (int64_t)message->len + (int64_t)message->key_len;
    status = PyList_Append(batch->list, record);
    Py_DECREF(record);
    return status;
}

/* Add what an event has: one record, or an error. All others have nothing for Python. */
static int add_event(Batch *batch, void *event)
{
    int type = rdk.event_type(event);
    const message_t *message;
    if (type == EVENT_ERROR) {
        batch->left--;
        return add_error(batch, event);
    }
    if (type != EVENT_FETCH)
        return 0;
    while ((message = rdk.event_message_next(event)) != NULL) {
        batch->left--;
        if (add_record(batch, message) < 0)
            return -1;
    }
    return 0;
}

static PyObject *queue_take(PyObject *object, PyObject *args)
{
    Queue *self = (Queue *)object;
    Batch batch;
    Py_ssize_t max_records;
    long long max_bytes;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "nL", &max_records, &max_bytes) || check_open(self) < 0)
        return NULL;
    if (self->is_in_use) {
        PyErr_SetString(PyExc_RuntimeError, "the queue is in use");
        return NULL;
    }
    memset(&batch, 0, sizeof(batch));
    batch.queue = self;
    batch.left = max_records;
    batch.bytes_left = max_bytes;
    batch.records = PyDict_New();
    batch.errors = PyList_New(0);
    if (batch.records == NULL || batch.errors == NULL)
        batch.status = -1;
    else if (max_records > 0 && max_bytes > 0) {
        void *event;
        self->is_in_use = 1;
        while (batch.status == 0 && batch.left > 0 && batch.bytes_left > 0
               && (event = rdk.queue_poll(self->queue, 0)) != NULL) {
            batch.status = add_event(&batch, event);
            rdk.event_destroy(event);
        }
        self->is_in_use = 0;
    }
    if (batch.status == 0)
        result = PyTuple_Pack(2, batch.records, batch.errors);
    Py_XDECREF(batch.topic);
    Py_XDECREF(batch.records);
    Py_XDECREF(batch.errors);
    return result;
}

static PyObject *queue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *client, *partition_class, *address;
    void *handle;
    Queue *self;
    (void)type;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Queue() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOO", &client, &address, &partition_class))
        return NULL;
    handle = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() || check_handle(client, handle) < 0)
        return NULL;
    self = PyObject_GC_New(Queue, queue_type);
    if (self == NULL)
        return NULL;
    self->is_in_use = 0;
    self->client = new_reference(client);
    self->partition_class = new_reference(partition_class);
    self->handle = handle;
    self->queue = rdk.queue_new(handle);
    PyObject_GC_Track((PyObject *)self);
    if (self->queue == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static PyMethodDef QUEUE_METHODS[] = {
    {"attach", queue_attach, METH_VARARGS,
     "attach(topic, partition): forward a partition's records; False if it is not valid."},
    {"notify", queue_notify, METH_VARARGS,
     "notify(fd): write a byte to it when this queue or the client's is no longer empty."},
    {"take", queue_take, METH_VARARGS,
     "take(max_records, max_bytes): return ({partition: records}, errors) without waiting."},
    {"close", queue_close, METH_NOARGS, "close(): drop the records."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot QUEUE_SLOTS[] = {
    {Py_tp_new, queue_new},
    {Py_tp_dealloc, queue_dealloc},
    {Py_tp_traverse, queue_traverse},
    {Py_tp_clear, queue_clear},
    {Py_tp_methods, QUEUE_METHODS},
    {Py_tp_doc, "Queue(client, address, partition_class): records of attached partitions."},
    {0, NULL},
};

static PyType_Spec QUEUE_SPEC = {
    .name = "logstate.kafka.native._records.Queue",
    .basicsize = sizeof(Queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = QUEUE_SLOTS,
};

/* --- failed deliveries ---------------------------------------------------------------------- */

enum { REASON_SIZE = 512 };

/* A producer whose configuration names this module as a plugin, and the first delivery that failed
 * since the last `take_failure`. */
typedef struct producer {
    void *handle;
    struct producer *next;
    int code; /* 0: none failed */
    char topic[TOPIC_NAME_SIZE];
    char reason[REASON_SIZE];
} Producer;

static Producer *producers = NULL; /* with `producers_lock` */
static PyThread_type_lock producers_lock = NULL;
/* The thread that is in `rd_kafka_producev` for `produce`; 0: none. The GIL protects it. */
static volatile unsigned long producing_thread = 0;

/* Return where the pointer to a producer is; with the lock. */
static Producer **producer_of(void *handle)
{
    Producer **at = &producers;
    while (*at != NULL && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

static void copy_text(char *target, size_t size, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length >= size)
        length = size - 1;
    if (length > 0)
        memcpy(target, text, length);
    target[length] = 0;
}

/* Note the failure of a record that `produce` passed: only those have no object of the client. */
static int on_acknowledgement(void *rk, message_t *message, void *opaque)
{
    Producer *producer;
    (void)opaque;
    if (message->err == 0 || message->private_ != NULL)
        return 0;
    if (producing_thread != 0 && producing_thread == PyThread_get_thread_ident())
        return 0; /* an unknown partition: `producev` returns it as well */
    PyThread_acquire_lock(producers_lock, WAIT_LOCK);
    producer = *producer_of(rk);
    if (producer != NULL && producer->code == 0) {
        producer->code = message->err;
        copy_text(producer->topic, sizeof(producer->topic),
                  message->rkt == NULL ? NULL : rdk.topic_name(message->rkt));
        copy_text(producer->reason, sizeof(producer->reason), rdk.message_produce_errstr(message));
    }
    PyThread_release_lock(producers_lock);
    return 0;
}

/* Deliveries may fail after this; their producer is not found then. */
static int on_destroy(void *rk, void *opaque)
{
    Producer **at, *producer;
    (void)opaque;
    PyThread_acquire_lock(producers_lock, WAIT_LOCK);
    at = producer_of(rk);
    producer = *at;
    if (producer != NULL)
        *at = producer->next;
    PyThread_release_lock(producers_lock);
    free(producer);
    return 0;
}

static int on_new(void *rk, const void *conf, void *opaque, char *reason, size_t size)
{
    Producer *producer = calloc(1, sizeof(*producer));
    (void)conf, (void)opaque, (void)reason, (void)size;
    if (producer == NULL)
        return 0; /* then `watches` returns False */
    if (rdk.interceptor_add_on_destroy(rk, "logstate", on_destroy, NULL) != 0
        || rdk.interceptor_add_on_acknowledgement(rk, "logstate", on_acknowledgement, NULL) != 0) {
        free(producer);
        return 0;
    }
    producer->handle = rk;
    PyThread_acquire_lock(producers_lock, WAIT_LOCK);
    producer->next = producers;
    producers = producer;
    PyThread_release_lock(producers_lock);
    return 0;
}

/* librdkafka calls this when `plugin.library.paths` names the file of this module. */
Py_EXPORTED_SYMBOL int conf_init(void *conf, void **opaque, char *reason, size_t size)
{
    (void)opaque;
    if (!is_bound) {
        copy_text(reason, size, "bind() was not called");
        return -1;
    }
    return rdk.conf_interceptor_add_on_new(conf, "logstate", on_new, NULL);
}

/* Parse (client, address); return the address, or NULL with an exception. */
static void *checked_handle(PyObject *args)
{
    PyObject *client, *address;
    void *handle;
    if (!PyArg_ParseTuple(args, "OO", &client, &address))
        return NULL;
    handle = PyLong_AsVoidPtr(address);
    return PyErr_Occurred() || check_handle(client, handle) < 0 ? NULL : handle;
}

static PyObject *watches(PyObject *module, PyObject *args)
{
    void *handle = checked_handle(args);
    int is_found;
    (void)module;
    if (handle == NULL)
        return NULL;
    PyThread_acquire_lock(producers_lock, WAIT_LOCK);
    is_found = *producer_of(handle) != NULL;
    PyThread_release_lock(producers_lock);
    return PyBool_FromLong(is_found);
}

static PyObject *take_failure(PyObject *module, PyObject *args)
{
    void *handle = checked_handle(args);
    Producer *producer, found;
    PyObject *topic, *reason, *failure;
    (void)module;
    if (handle == NULL)
        return NULL;
    found.code = 0;
    PyThread_acquire_lock(producers_lock, WAIT_LOCK);
    producer = *producer_of(handle);
    if (producer != NULL && producer->code != 0) {
        found = *producer;
        producer->code = 0;
    }
    PyThread_release_lock(producers_lock);
    if (found.code == 0)
        Py_RETURN_NONE;
    topic = text(found.topic);
    reason = text(found.reason);
    failure = topic != NULL && reason != NULL
                  ? Py_BuildValue("(iOO)", found.code, topic, reason)
                  : NULL;
    Py_XDECREF(topic);
    Py_XDECREF(reason);
    return failure;
}

/* --- producing ------------------------------------------------------------------------------ */

enum { TOPICS_MAX = 8 };

typedef struct {
    PyObject *name;
    void *rkt;
    int32_t count; /* partitions; 0 until it is needed */
} Topic;

/* The topics of one call: handles of librdkafka live no longer than that. */
typedef struct {
    Topic topics[TOPICS_MAX];
    int next; /* the one to replace */
} Topics;

static void forget_topic(Topic *topic)
{
    if (topic->rkt != NULL)
        rdk.topic_destroy(topic->rkt);
    Py_CLEAR(topic->name);
    topic->rkt = NULL;
    topic->count = 0;
}

/* Return the topic with this name; NULL, without an exception, if there can be none. */
static Topic *topic_named(Topics *topics, void *handle, PyObject *name)
{
    Topic *topic;
    const char *utf8;
    Py_ssize_t size;
    void *rkt;
    int n;
    for (n = 0; n < TOPICS_MAX; n++)
        if (topics->topics[n].name == name)
            return &topics->topics[n];
    for (n = 0; n < TOPICS_MAX; n++)
        if (topics->topics[n].name != NULL && PyUnicode_Compare(topics->topics[n].name, name) == 0)
            return &topics->topics[n];
    utf8 = PyUnicode_AsUTF8AndSize(name, &size);
    if (utf8 == NULL) {
        PyErr_Clear();
        return NULL;
    }
    if (size == 0 || strlen(utf8) != (size_t)size)
        return NULL;
    rkt = rdk.topic_new(handle, utf8, NULL);
    if (rkt == NULL)
        return NULL;
    topic = &topics->topics[topics->next];
    topics->next = (topics->next + 1) % TOPICS_MAX;
    forget_topic(topic);
    topic->name = new_reference(name);
    topic->rkt = rkt;
    return topic;
}

/* Set *data and *size from bytes or None; return 0 for anything else. */
static int is_data(PyObject *object, char **data, Py_ssize_t *size)
{
    *data = NULL;
    *size = 0;
    if (object == Py_None)
        return 1;
    if (!PyBytes_Check(object))
        return 0;
    *data = PyBytes_AsString(object);
    *size = PyBytes_Size(object);
    return *data != NULL && *size >= 0;
}

/* Set *number from an integer within the limits; return 0, without an exception, if it is none. */
static int is_number(PyObject *object, long long least, long long most, long long *number)
{
    if (!PyLong_Check(object))
        return 0;
    *number = PyLong_AsLongLong(object);
    if (*number == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return *number >= least && *number <= most;
}

/* Set the partition count of a topic: `count_of` may raise. */
static int count_partitions(Topic *topic, PyObject *count_of)
{
    long long count = 0;
    PyObject *found = PyObject_CallFunctionObjArgs(count_of, topic->name, NULL);
    int is_count;
    if (found == NULL)
        return -1;
    is_count = is_number(found, 1, INT32_MAX, &count);
    Py_DECREF(found);
    if (!is_count) {
        PyErr_SetString(PyExc_ValueError, "count_of() returned no partition count");
        return -1;
    }
    topic->count = (int32_t)count;
    return 0;
}

/* Pass one record to the client. Return 1 if the client has it, 0 if it must be passed by the
 * client's own call, which reports why, or -1 with an exception. */
static int send(PyObject *row, PyObject *client, void *handle, Topics *topics, PyObject *count_of)
{
    PyObject *name, *place;
    char *key, *value;
    Py_ssize_t key_size, value_size;
    long long timestamp, partition = -1;
    Topic *topic;
    int code;
    if (!PyTuple_Check(row) || PyTuple_Size(row) != 6)
        return 0;
    name = PyTuple_GetItem(row, 0);
    place = PyTuple_GetItem(row, 1);
    if (!PyUnicode_Check(name) || PyTuple_GetItem(row, 5) != Py_None
        || !is_data(PyTuple_GetItem(row, 2), &key, &key_size)
        || !is_data(PyTuple_GetItem(row, 3), &value, &value_size)
        || !is_number(PyTuple_GetItem(row, 4), LLONG_MIN, LLONG_MAX, &timestamp)
        || (place != Py_None && !is_number(place, -1, INT32_MAX, &partition)))
        return 0;
    topic = topic_named(topics, handle, name);
    if (topic == NULL)
        return 0;
    if (place == Py_None && key != NULL) {
        if (topic->count == 0) {
            if (count_partitions(topic, count_of) < 0)
                return -1;
            if (!has_handle(client, handle)) /* count_of() released the GIL */
                return 0;
        }
        partition = rdk.msg_partitioner_murmur2(topic->rkt, key, (size_t)key_size, topic->count,
                                                NULL, NULL);
    }
    producing_thread = PyThread_get_thread_ident();
    code = rdk.producev(handle, V_MSGFLAGS, (int)FLAG_COPY, V_RKT, topic->rkt, V_PARTITION,
                        (int32_t)partition, V_KEY, (const void *)key, (size_t)key_size, V_VALUE,
                        (void *)value, (size_t)value_size, V_TIMESTAMP, (int64_t)timestamp, V_END);
    producing_thread = 0;
    return code == 0;
}

static PyObject *produce(PyObject *module, PyObject *args)
{
    PyObject *client, *address, *records, *count_of;
    Py_ssize_t at, end;
    void *handle;
    Topics topics;
    int n, status = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOnnO", &client, &address, &records, &at, &end, &count_of))
        return NULL;
    handle = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() || check_handle(client, handle) < 0)
        return NULL;
    if (at < 0 || !PyList_Check(records))
        return PyLong_FromSsize_t(at);
    memset(&topics, 0, sizeof(topics));
    while (at < end && at < PyList_Size(records)) {
        PyObject *row = new_reference(PyList_GetItem(records, at));
        status = send(row, client, handle, &topics, count_of);
        Py_DECREF(row);
        if (status <= 0)
            break;
        at++;
    }
    if (has_handle(client, handle)) {
        for (n = 0; n < TOPICS_MAX; n++)
            forget_topic(&topics.topics[n]);
    } else { /* closed by count_of(): the client's topics are gone */
        for (n = 0; n < TOPICS_MAX; n++)
            Py_CLEAR(topics.topics[n].name);
    }
    return status < 0 ? NULL : PyLong_FromSsize_t(at);
}

/* --- the module ------------------------------------------------------------------------------ */

static PyMethodDef METHODS[] = {
    {"bind", bind, METH_O, "bind(addresses): set librdkafka's functions, by name."},
    {"needed", needed, METH_NOARGS, "needed(): return the names of the functions."},
    {"produce", produce, METH_VARARGS,
     "produce(client, address, records, start, end, count_of): return the index of the first\n"
     "record that the client's own call has to pass; `end` if there is none."},
    {"watches", watches, METH_VARARGS,
     "watches(client, address): return whether failed deliveries of this producer are noted."},
    {"take_failure", take_failure, METH_VARARGS,
     "take_failure(client, address): return (code, topic, reason) of the first failed delivery of a\n"
     "record of produce() since the last call; None if none failed."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "logstate.kafka.native._records",
    .m_doc = "Records between librdkafka and Python in batches.",
    .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__records(void)
{
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL)
        return NULL;
    if (producers_lock == NULL)
        producers_lock = PyThread_allocate_lock();
    if (producers_lock == NULL) {
        Py_DECREF(module);
        return PyErr_NoMemory();
    }
    record_type = (PyTypeObject *)PyType_FromSpec(&RECORD_SPEC);
    queue_type = (PyTypeObject *)PyType_FromSpec(&QUEUE_SPEC);
    if (record_type == NULL || queue_type == NULL
        || PyModule_AddObjectRef(module, "Record", (PyObject *)record_type) < 0
        || PyModule_AddObjectRef(module, "Queue", (PyObject *)queue_type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
