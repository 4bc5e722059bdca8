// Writes of every kind, and what reads show of them.

import assert from 'node:assert/strict';
import {test} from 'node:test';
import {PHASE, create, instance, newTable} from './clients.js';

const first = PHASE === 'first';
const skip = !first;

/** Returns the cells of a row as [column, value]. */
function cells(row) {
  return Object.entries(row.data).flatMap(([family, columns]) =>
    Object.entries(columns).flatMap(([qualifier, versions]) =>
      versions.map(({value}) => [`${family}:${qualifier}`, value])));
}

test('rows that were acknowledged stay', {skip: PHASE === 'other'}, async () => {
  if (first) {
    const table = await create('lasting', ['f']);
    await table.insert([...Array(100).keys()].map(i => ({key: `row${i}`, data: {f: {q: `v${i}`}}})));
  }
  const [rows] = await instance().table('lasting').getRows();
  assert.equal(rows.length, 100);
  for (const row of rows) assert.deepEqual(cells(row), [['f:q', `v${row.id.slice(3)}`]]);
});

test('a column and a family are deleted', {skip}, async () => {
  const table = await newTable('f', 'g');
  const row = table.row('r');
  await row.create({entry: {f: {a: '1', b: '2'}, g: {c: '3'}}});
  await row.deleteCells(['f:a']);
  assert.deepEqual(cells((await row.get())[0]), [['f:b', '2'], ['g:c', '3']]);
  await row.deleteCells(['f']);
  assert.deepEqual(cells((await row.get())[0]), [['g:c', '3']]);
  await row.delete();
  assert.deepEqual(await row.exists(), [false]);
});

test('a filter decides which mutations apply', {skip}, async () => {
  const table = await newTable('f');
  const row = table.row('r');
  await row.create({entry: {f: {a: '1'}}});
  const put = value => [{method: 'insert', data: {f: {b: value}}}];
  const options = {onMatch: put('yes'), onNoMatch: put('no')};
  assert.deepEqual((await row.filter({value: '1'}, options))[0], true);
  assert.equal((await row.get(['f:b']))[0].f.b[0].value, 'yes');
  assert.deepEqual((await row.filter({value: '2'}, options))[0], false);
  assert.equal((await row.get(['f:b']))[0].f.b[0].value, 'no');
});

test('rules increment and append', {skip}, async () => {
  const table = await newTable('f');
  const row = table.row('r');
  await row.createRules([{column: 'f:text', append: 'ab'}, {column: 'f:count', increment: 5}]);
  await row.createRules([{column: 'f:text', append: 'cd'}]);
  await row.increment('f:count', -7);
  const [data] = await row.get(['f:text', 'f:count']);
  assert.equal(data.f.text[0].value, 'abcd');
  assert.equal(data.f.count[0].value, -2);
});

test('a batch tells which entries failed', {skip}, async () => {
  const table = await newTable('f');
  const entries = [{key: 'good', data: {f: {q: 'v'}}}, {key: 'bad', data: {nowhere: {q: 'v'}}}];
  await assert.rejects(table.insert(entries), error => {
    assert.equal(error.name, 'PartialFailureError');
    assert.equal(error.errors.length, 1);
    assert.match(error.errors[0].message, /nowhere/);
    return true;
  });
  assert.deepEqual((await table.getRows())[0].map(row => row.id), ['good']);
});

test('a read ends early', {skip}, async () => {
  const table = await newTable('f');
  const value = 'x'.repeat(10_000);
  await table.insert([...Array(500).keys()].map(i => ({key: `row${i}`, data: {f: {q: value}}})));
  let seen = 0;
  await new Promise((resolve, reject) => {
    const stream = table.createReadStream();
    stream.on('error', reject).on('end', resolve).on('data', () => {
      if (++seen === 10) stream.end();
    });
  });
  assert.equal(seen, 10);
  assert.equal((await table.getRows())[0].length, 500);
});

test('large rows arrive whole', {skip}, async () => {
  const table = await newTable('f');
  const value = Buffer.alloc(3_000_000, 7);
  await table.insert({key: 'r', data: {f: {q: value}}});
  const [row] = await table.row('r').get({decode: false});
  assert.ok(row.data.f.q[0].value.equals(value));
});
