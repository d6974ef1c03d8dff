import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus, loadavg, release } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { runApiBench } from './api/api.ts';
import { runArtefactsBench } from './process/artefacts.ts';
import { runAtlsBench } from './atls/atls.ts';
import { runAttestationBench } from './attestation.ts';
import { runAuditBench } from './audit/audit.ts';
import { runBackupBench } from './backup/backup.ts';
import { runCuratorBench } from './curator/curator.ts';
import { runDiskBench } from './disk/disk.ts';
import { runJoinBench } from './join/join.ts';
import { runLifeBench } from './process/life.ts';
import { runNodeBench } from './node/node.ts';
import { parseReport, withTables } from './report.ts';
import { formatResults, isWithin, type BenchReport, type BenchResult, type SuiteReport } from './result.ts';
import { runRestoreBench } from './restore/restore.ts';
import { runStartBench } from './process/start.ts';
import { SUITE_NAMES, type SuiteName } from './suites.ts';
import { runWorkerBench } from './node/worker.ts';

const ROOT = join(import.meta.dirname, '../..');
const KEPT = join(ROOT, 'docs/bench.json');

const SUITES: Readonly<Record<SuiteName, (rounds: number | undefined) => Promise<readonly BenchResult[]>>> = {
  artefacts: runArtefactsBench,
  start: runStartBench,
  life: runLifeBench,
  atls: runAtlsBench,
  attestation: runAttestationBench,
  join: runJoinBench,
  curator: runCuratorBench,
  node: runNodeBench,
  worker: runWorkerBench,
  audit: runAuditBench,
  disk: runDiskBench,
  backup: runBackupBench,
  restore: runRestoreBench,
  api: () => runApiBench(),
};

const HELP = `Compares what was built last with plain alternatives, in turns within one run.

Usage: npm run bench -- [SUITE…] [--rounds N] [--keep]

  artefacts    sizes of what is shipped, number of dependencies
  start        the CLI's --version, --help and completion against \`node -e 0\`
  life         what a million log lines and 10,000 Event Value changes leave in memory; an accelerated day of a cluster
               (24 minutes); needs root and the bundle
  atls         attested TLS against mTLS
  attestation  verifying evidence against Go's verifiers
  join         machines with a software TPM one after the other, then 500 at once, at the built join service with a real etcd
  curator      5,000 nodes that watch and send heartbeats, at the built curator with a real etcd
  node         a first node by \`cluster\` against manual kubeadm, and what then runs on it; needs root and the bundle
  worker       a worker, ticket to Ready, against manual kubeadm join; five at once; needs root and the bundle
  audit        CPU time of an API server with and without its audit log, at 100 writes a second; needs root and the bundle
  disk         fio and etcd on an encrypted disk, with and without tags, against a plain one in the same virtual machine; needs
               QEMU (\`.ci/setup long\`) and the bundle (\`.ci/setup bundle\`)
  backup       the API of a busy control plane while it takes and proves a backup of 1 GiB; needs root and the bundle
  restore      the loss of 3 + 2 nodes with 2,000 objects, until three fresh machines are Ready and the application answers;
               needs root and the bundle
  api          requests, watches, pods and Services of three control planes and a worker against the same of manual
               kubeadm; needs root and the bundle

  --rounds N   rounds of \`node\`, \`worker\`, \`audit\`, \`disk\`, \`backup\` and \`restore\` (3)
  --keep       also into docs/bench.json and docs/bench.md

Run \`npm run build\` first. Results are in dist/bench.json; the exit code is 10 when a target was missed.
`;

async function run(
  names: readonly SuiteName[],
  rounds: number | undefined,
): Promise<Record<string, SuiteReport>> {
  const reports: Record<string, SuiteReport> = {};
  for (const name of names) {
    const before = loadPerProcessor();
    const results = [...(await SUITES[name](rounds))];
    const measured = new Date().toISOString();
    reports[name] = { measured, machine: machine(), load: [before, loadPerProcessor()], results };
    process.stdout.write(`${name}\n${formatResults(results)}\n`);
  }
  return reports;
}

function machine(): string {
  return `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, Linux ${release().split('-')[0] ?? ''}, Node ${process.version}`;
}

function loadPerProcessor(): number {
  return Math.round(((loadavg()[0] ?? 0) / cpus().length) * 100) / 100;
}

/** Writes the new results to docs/bench.json, and keeps the results of the other suites. */
async function keep(reports: Record<string, SuiteReport>): Promise<void> {
  const before = await readFile(KEPT, 'utf8').then(parseReport, (): BenchReport => ({
    version: 1,
    suites: {},
  }));
  const all = { ...before.suites, ...reports };
  const suites = Object.fromEntries(SUITE_NAMES.flatMap((name) => (all[name] ? [[name, all[name]]] : [])));
  const report: BenchReport = { version: 1, suites };
  await writeFile(KEPT, `${JSON.stringify(report, undefined, 2)}\n`);
  const page = join(ROOT, 'docs/bench.md');
  await writeFile(page, withTables(await readFile(page, 'utf8'), report));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string' }, keep: { type: 'boolean' }, help: { type: 'boolean' } },
});
const unknown = positionals.find((name) => !SUITE_NAMES.some((each) => each === name));
if (values.help === true) process.stdout.write(HELP);
else if (unknown !== undefined) {
  process.stderr.write(`there is no suite ${unknown}\n\n${HELP}`);
  process.exitCode = 2;
} else {
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  const suites = await run(
    SUITE_NAMES.filter((name) => positionals.length === 0 || positionals.includes(name)),
    rounds,
  );
  await mkdir(join(ROOT, 'dist'), { recursive: true });
  const report: BenchReport = { version: 1, suites };
  await writeFile(join(ROOT, 'dist/bench.json'), `${JSON.stringify(report, undefined, 2)}\n`);
  if (values.keep === true) await keep(suites);
  process.exitCode = Object.values(suites).every(({ results }) => results.every(isWithin)) ? 0 : 10;
}
