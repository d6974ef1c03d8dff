import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { runAtlsBench } from './atls.ts';
import { runAttestationBench } from './attestation.ts';
import { formatResults, isWithin } from './result.ts';

/** `npm run bench`: every comparison of one run as a table, and as JSON in dist/bench.json. */
const results = [...(await runAtlsBench()), ...(await runAttestationBench())];
const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}`;
process.stdout.write(`${machine}\n${formatResults(results)}\n`);
const folder = join(import.meta.dirname, '../../dist');
await mkdir(folder, { recursive: true });
await writeFile(join(folder, 'bench.json'), `${JSON.stringify({ machine, results }, undefined, 2)}\n`);
process.exitCode = results.every(isWithin) ? 0 : 10;
