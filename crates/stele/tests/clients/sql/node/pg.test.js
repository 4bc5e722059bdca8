// node-postgres: parameters, types, transactions, errors, a pool, cursors, COPY, cancel.
//
// `CLIENTS_SQL` is the address of the server. Each test has a schema of its own.

'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const { pipeline } = require('node:stream/promises');
const { Readable, Writable } = require('node:stream');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');
const copy = require('pg-copy-streams');

const address = process.env.CLIENTS_SQL;
let number = 0;

/** Runs `work` with a client whose tables are in a schema of the test. */
async function withClient(work) {
  const schema = `n${process.pid}_${number++}`;
  const client = new Client({ connectionString: address });
  await client.connect();
  try {
    await client.query(`CREATE SCHEMA ${schema}`);
    await client.query(`SET search_path = ${schema}`);
    await work(client, schema);
  } finally {
    await client.query('ROLLBACK');
    await client.query(`DROP SCHEMA ${schema} CASCADE`);
    await client.end();
  }
}

test('values come back', () => withClient(async (client) => {
  const values = [
    ['bool', true], ['int2', -5], ['int4', 2 ** 31 - 1], ['int8', '9223372036854775807'],
    ['float8', 0.1], ['numeric', '123456789012345678.90'], ['text', "it's € \\"], ['varchar(5)', 'abc'],
    ['bytea', Buffer.from([0, 1, 255])], ['uuid', '12345678-1234-5678-1234-567812345678'],
    ['timestamptz', new Date('2024-02-29T12:00:00.123Z')], ['json', { a: [1, null] }],
    ['jsonb', { a: { b: '€' } }], ['int4[]', [1, null, 3]], ['text[]', ['a', null, 'b"c,{}']],
  ];
  const columns = values.map(([type], at) => `c${at} ${type}`);
  await client.query(`CREATE TABLE t (id serial PRIMARY KEY, ${columns.join(', ')})`);
  const names = values.map((_, at) => `c${at}`).join(', ');
  const holes = values.map((_, at) => `$${at + 1}`).join(', ');
  const inserted = await client.query(
    `INSERT INTO t (${names}) VALUES (${holes}) RETURNING id`, values.map(([, value]) => value));
  assert.deepStrictEqual(inserted.rows, [{ id: 1 }]);
  assert.strictEqual(inserted.rowCount, 1);
  await client.query('INSERT INTO t DEFAULT VALUES');
  const result = await client.query(`SELECT ${names} FROM t ORDER BY id`);
  values.forEach(([type, value], at) => {
    assert.deepStrictEqual(result.rows[0][`c${at}`], value, type);
    assert.strictEqual(result.rows[1][`c${at}`], null, type);
  });
  const oid = (await client.query("SELECT 't'::regclass::oid AS oid")).rows[0].oid;
  assert.strictEqual(result.fields[0].tableID, oid);
  assert.strictEqual(result.fields[0].dataTypeID, 16);
}));

test('binary results', () => withClient(async (client) => {
  // The client misreads floats in binary, whatever the server.
  const text = 'SELECT 1::int4 AS a, 2::int8 AS b, true AS d, $1::text AS e';
  const result = await client.query({ text, values: ['x'], binary: true });
  assert.deepStrictEqual(result.rows[0], { a: 1, b: '2', d: true, e: 'x' });
}));

test('transactions, savepoints and errors', () => withClient(async (client, schema) => {
  await client.query('CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, CONSTRAINT short CHECK (length(b) < 5))');
  await client.query('BEGIN');
  await client.query("INSERT INTO t VALUES ($1, $2)", [1, 'x']);
  await client.query('SAVEPOINT s');
  await assert.rejects(client.query("INSERT INTO t VALUES (1, 'y')"),
    { code: '23505', constraint: 't_pkey', schema, table: 't', severity: 'ERROR' });
  await assert.rejects(client.query('SELECT 1'), { code: '25P02' });
  await client.query('ROLLBACK TO SAVEPOINT s');
  await assert.rejects(client.query("INSERT INTO t VALUES (2, 'long text')"), { code: '23514', constraint: 'short' });
  await client.query('ROLLBACK TO s');
  await assert.rejects(client.query('INSERT INTO t VALUES (2, NULL)'), { code: '23502', column: 'b' });
  await client.query('ROLLBACK TO s');
  await client.query('COMMIT');
  assert.deepStrictEqual((await client.query('SELECT * FROM t')).rows, [{ a: 1, b: 'x' }]);
  await assert.rejects(client.query('SELECT nothing FROM t'), { code: '42703', position: '8' });
  await assert.rejects(client.query("SELECT $1::int", ['x']), { code: '22P02' });
}));

test('prepared statements by name', () => withClient(async (client) => {
  await client.query('CREATE TABLE t (a int PRIMARY KEY, b text)');
  const insert = { name: 'insert', text: 'INSERT INTO t VALUES ($1, $2)' };
  for (let n = 0; n < 100; n++) {
    await client.query({ ...insert, values: [n, `v${n}`] });
  }
  const get = { name: 'get', text: 'SELECT b FROM t WHERE a = $1' };
  for (let n = 0; n < 100; n += 9) {
    assert.deepStrictEqual((await client.query({ ...get, values: [n] })).rows, [{ b: `v${n}` }]);
  }
  await client.query('ALTER TABLE t ADD COLUMN c int');
  assert.deepStrictEqual((await client.query({ ...get, values: [5] })).rows, [{ b: 'v5' }]);
}));

test('queries of one client wait for each other', () => withClient(async (client) => {
  const results = await Promise.all([1, 2, 3, 4].map((n) => client.query('SELECT $1::int AS n', [n])));
  assert.deepStrictEqual(results.map((result) => result.rows[0].n), [1, 2, 3, 4]);
  const many = await client.query('SELECT 1 AS a; SELECT 2 AS b');
  assert.deepStrictEqual(many.map((result) => result.rows[0]), [{ a: 1 }, { b: 2 }]);
}));

test('a pool shares connections', () => withClient(async (client, schema) => {
  await client.query('CREATE TABLE t (a int PRIMARY KEY, n int)');
  await client.query('INSERT INTO t VALUES (1, 0)');
  const pool = new Pool({ connectionString: address, max: 5 });
  await Promise.all(Array.from({ length: 50 }, () => pool.query(`UPDATE ${schema}.t SET n = n + 1 WHERE a = 1`)));
  const { rows } = await pool.query(`SELECT n FROM ${schema}.t`);
  await pool.end();
  assert.deepStrictEqual(rows, [{ n: 50 }]);
}));

test('a cursor reads part by part', () => withClient(async (client) => {
  const cursor = client.query(new Cursor('SELECT g FROM generate_series(1, $1) AS g', [1000]));
  let sum = 0;
  for (let rows = await cursor.read(77); rows.length > 0; rows = await cursor.read(77)) {
    for (const row of rows) sum += row.g;
  }
  await cursor.close();
  assert.strictEqual(sum, 500500);
  const early = client.query(new Cursor('SELECT g FROM generate_series(1, 100000) AS g'));
  assert.strictEqual((await early.read(10)).length, 10);
  await early.close();
  assert.deepStrictEqual((await client.query('SELECT 1 AS a')).rows, [{ a: 1 }]);
}));

test('COPY by streams', () => withClient(async (client) => {
  await client.query('CREATE TABLE t (a int PRIMARY KEY, b text)');
  const lines = Array.from({ length: 5000 }, (_, n) => `${n}\ttext ${n}\n`);
  await pipeline(Readable.from(lines), client.query(copy.from('COPY t FROM STDIN')));
  const parts = [];
  const sink = new Writable({ write(part, _encoding, done) { parts.push(part); done(); } });
  await pipeline(client.query(copy.to('COPY (SELECT * FROM t ORDER BY a) TO STDOUT')), sink);
  assert.strictEqual(Buffer.concat(parts).toString(), lines.join(''));
  await assert.rejects(
    pipeline(Readable.from(['1\tx\n', 'z\ty\n']), client.query(copy.from('COPY t FROM STDIN'))), { code: '22P02' });
  assert.deepStrictEqual((await client.query('SELECT count(*)::int AS n FROM t')).rows, [{ n: 5000 }]);
}));

test('a statement times out', () => withClient(async (client) => {
  await client.query("SET statement_timeout = '200ms'");
  await assert.rejects(client.query('SELECT pg_sleep(60)'), { code: '57014' });
  await client.query('SET statement_timeout = 0');
  assert.deepStrictEqual((await client.query('SELECT 1 AS a')).rows, [{ a: 1 }]);
}));

test('notices reach the client', () => withClient(async (client) => {
  const notices = [];
  client.on('notice', (notice) => notices.push(notice.message));
  await client.query('DROP TABLE IF EXISTS nothing_here');
  assert.deepStrictEqual(notices, ['table "nothing_here" does not exist, skipping']);
}));
