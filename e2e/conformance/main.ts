import { join, resolve } from 'node:path';
import { argv, stderr, stdout } from 'node:process';
import { HELP, parseOptions } from './options.ts';
import { formatResults } from './results.ts';
import { prepareRun, runSpecs, type RunOptions } from './run.ts';
import { createBed, createPlainBed } from './test-bed.ts';

const DIST = resolve(import.meta.dirname, '../../dist');

const options = readOptions();
if (options !== undefined) {
  const stopping = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopping.abort());
  const run: RunOptions = {
    ...options,
    directory: join(DIST, options.plain ? 'conformance-plain' : 'conformance'),
    signal: stopping.signal,
    say: (text) => stdout.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`),
  };
  const prepared = await prepareRun(run);
  if (options.list) stdout.write(`${prepared.names.join('\n')}\n`);
  else {
    run.say('Starting the machines …');
    await using bed = await (options.plain ? createPlainBed(options) : createBed(options));
    run.say('Importing the images …');
    await bed.importImages(prepared.build.images);
    run.say(`Running ${prepared.names.length} specs …`);
    const results = await runSpecs(run, prepared, bed);
    stdout.write(`${formatResults(results)}\n`);
    process.exitCode = results.every(({ outcome }) => outcome === 'passed') ? 0 : 10;
  }
}

function readOptions() {
  try {
    const parsed = parseOptions(argv.slice(2));
    if (parsed !== 'help') return parsed;
    stdout.write(HELP);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    stderr.write(`${error.message}\n\n${HELP}`);
    process.exitCode = 2;
  }
  return undefined;
}
