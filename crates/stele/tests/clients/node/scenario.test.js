// The rows and reads of ../scenario.json, said in the terms of the Node client.

import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {PHASE, create, instance} from './clients.js';

const scenario = JSON.parse(readFileSync(new URL('../scenario.json', import.meta.url), 'utf8'));

/** Returns the bytes that a text of the scenario stands for, one a character. */
const raw = text => Buffer.from(text, 'latin1');

/** Returns a text as the client gives it, which takes all bytes for UTF-8. */
const decoded = text => raw(text).toString();

function entries() {
  return Object.entries(scenario.rows).map(([key, cells]) => {
    const mutations = cells.map(([family, qualifier, micros, value]) => ({
      setCell: {
        familyName: family,
        columnQualifier: raw(qualifier),
        timestampMicros: micros,
        value: raw(value),
      },
    }));
    return {rowKey: raw(key), mutations};
  });
}

function bound(range, closed, open) {
  if (closed in range) return {value: raw(range[closed]), inclusive: true};
  if (open in range) return {value: raw(range[open]), inclusive: false};
  return undefined;
}

const bounds = range => ({start: bound(range, 'from', 'after'), end: bound(range, 'to', 'below')});

// The client's own filters, except that it takes no empty pattern, range or time.
function filter(tree) {
  if (tree.if) {
    return {
      condition: {
        test: filter(tree.if),
        pass: tree.then ? filter(tree.then) : [],
        fail: tree.else ? filter(tree.else) : [],
      },
    };
  }
  const [[kind, value]] = Object.entries(tree);
  switch (kind) {
    case 'chain':
      return value.map(filter);
    case 'interleave':
      return {interleave: value.map(filter)};
    case 'pass':
      return {all: true};
    case 'block':
      return {all: false};
    case 'strip':
      return {value: {strip: true}};
    case 'label':
      return {label: value};
    case 'row_key':
      return {row: {key: value}};
    case 'family':
      return {family: value};
    case 'qualifier':
      return {column: {name: value}};
    case 'value':
      return {value: {value}};
    case 'columns':
      return {column: {family: value.family, ...bounds(value)}};
    case 'values':
      return {value: bounds(value)};
    case 'times':
      return {time: {start: new Date(value[0] / 1000), end: new Date(value[1] / 1000)}};
    case 'per_column':
      return {column: {cellLimit: value}};
    case 'per_row':
      return {row: {cellLimit: value}};
    case 'skip':
      return {row: {cellOffset: value}};
    default:
      throw new Error(`no such filter: ${kind}`);
  }
}

/** Returns whether the client can say a read: it takes no empty pattern or range, no prefix of bytes. */
function said(read) {
  const text = JSON.stringify(read.filter ?? {});
  const unsaid = ['"chain":[{"interleave":[{"chain"', '"qualifier":""', '"times":[0,', ',0]}'];
  return !read.only && !read.reversed && !/[^ -~]/.test(read.prefix) && !unsaid.some(part => text.includes(part)) &&
    !text.includes('{"columns":{"family":"soil"}}');
}

function options(read) {
  const out = {};
  if (read.keys) out.keys = read.keys.map(raw);
  if (read.ranges) out.ranges = read.ranges.map(bounds);
  if (read.prefix) out.prefix = read.prefix;
  if (read.limit) out.limit = read.limit;
  if (read.filter) out.filter = filter(read.filter);
  return out;
}

function lines(row) {
  const out = [];
  for (const [family, columns] of Object.entries(row.data)) {
    for (const [qualifier, cells] of Object.entries(columns)) {
      for (const {value, timestamp, labels} of cells) {
        const marks = labels.map(label => ` {${label}}`).join('');
        out.push(`${row.id} ${family}:${qualifier} @${timestamp} = ${value}${marks}`);
      }
    }
  }
  return out;
}

// The client groups cells by column, so an interleave's order among columns is lost.
const grouped = read => JSON.stringify(read.filter ?? {}).includes('interleave');

test('scenario', async t => {
  if (PHASE === 'first') {
    await create('scenario', scenario.families, scenario.splits.map(raw));
    await instance().table('scenario').mutate(entries(), {rawMutation: true});
  }
  const [from, name] = PHASE === 'other' ? process.env.CLIENTS_TABLE.split('/') : [, 'scenario'];
  const table = instance(from).table(name);
  for (const read of scenario.reads.filter(said)) {
    await t.test(read.name, async () => {
      const [rows] = await table.getRows(options(read));
      const [got, want] = [rows.flatMap(lines), read.want.map(decoded)];
      if (grouped(read)) {
        got.sort();
        want.sort();
      }
      assert.deepEqual(got, want);
    });
  }
});
