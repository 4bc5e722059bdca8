// The official Node client of the server that BIGTABLE_EMULATOR_HOST names (or, by TLS and signed in
// with the key file that CLIENTS_KEY_FILE names, of the one at CLIENTS_ENDPOINT). The suite runs in
// phases, on one data directory:
//
// - CLIENTS_PHASE=first: everything; tables that stay are made and filled.
// - CLIENTS_PHASE=again: what holds after the server was killed and restarted.
// - CLIENTS_PHASE=other: reads of what the suite of another language wrote, in the table that
//   CLIENTS_TABLE names as INSTANCE/TABLE.

import {Bigtable} from '@google-cloud/bigtable';
import {basename} from 'node:path';
import {after} from 'node:test';

export const PHASE = process.env.CLIENTS_PHASE;
// The option apiEndpoint would mean plaintext.
const signIn = ([servicePath, port], keyFilename) =>
  ({servicePath, port: Number(port), keyFilename, metricsEnabled: false});
const {CLIENTS_ENDPOINT, CLIENTS_KEY_FILE} = process.env;
const options = CLIENTS_ENDPOINT ? signIn(CLIENTS_ENDPOINT.split(':'), CLIENTS_KEY_FILE) : {};
export const bigtable = new Bigtable({projectId: 'stele-tests', ...options});

after(() => bigtable.close());

/** Returns the instance of that name, or the suite's own. */
export const instance = name => bigtable.instance(name ?? 'node');

/** Makes a table with plain families and gives it open. */
export async function create(name, families, splits = []) {
  const table = instance().table(name);
  await table.create({families, splits});
  return table;
}

// Each file of tests is a process of its own.
const file = basename(process.argv[1]).split('.')[0];
let tables = 0;

/** Makes a table of its own for a test. */
export const newTable = (...families) => create(`${file}-${++tables}`, families);
