// Tables and families.

import assert from 'node:assert/strict';
import {test} from 'node:test';
import {PHASE, bigtable, create, instance, newTable} from './clients.js';

const skip = PHASE !== 'first';

test('a table keeps its families', {skip: PHASE === 'other'}, async () => {
  if (PHASE === 'first') {
    const three = {name: 'three', rule: {versions: 3}};
    const table = await create('families', ['plain', three], [Buffer.from('g'), Buffer.from('p')]);
    await table.createFamily('late');
    await table.createFamily('either', {rule: {age: {seconds: 60, nanos: 0}, versions: 2, union: true}});
    await table.family('three').setMetadata({rule: {versions: 4}});
    await table.createFamily('gone');
    await table.family('gone').delete();
  }
  const table = instance().table('families');
  const [families] = await table.getFamilies();
  const ids = families.map(family => family.id).sort();
  assert.deepEqual(ids, ['either', 'late', 'plain', 'three']);
  const rule = name => families.find(family => family.id === name).metadata.gcRule;
  assert.equal(rule('three').maxNumVersions, 4);
  assert.equal(rule('either').union.rules.length, 2);
  const [samples] = await table.sampleRowKeys();
  assert.deepEqual(samples.map(sample => sample.key.toString()), ['g', 'p', '']);
});

test('tables come and go', {skip}, async () => {
  const table = await newTable('f');
  assert.deepEqual(await table.exists(), [true]);
  await assert.rejects(table.create({families: ['f']}), {code: 6});
  const [tables] = await instance().getTables();
  assert.ok(tables.some(listed => listed.id === table.id));
  await table.insert([{key: 'a1', data: {f: {q: 'v'}}}, {key: 'b1', data: {f: {q: 'v'}}}]);
  await table.deleteRows('a');
  assert.deepEqual((await table.getRows())[0].map(row => row.id), ['b1']);
  await table.truncate();
  assert.deepEqual((await table.getRows())[0], []);
  await table.waitForReplication();
  await table.delete();
  assert.deepEqual(await table.exists(), [false]);
  await assert.rejects(table.getRows(), {code: 5});
});

test('instances are listed', {skip}, async () => {
  await newTable('f');
  const [instances] = await bigtable.getInstances();
  assert.ok(instances.some(listed => listed.id.endsWith('node')));
  const [clusters] = await instance().getClusters();
  assert.equal(clusters.length, 1);
});
