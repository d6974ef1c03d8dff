import { performance } from 'node:perf_hooks';
import { cpuSecondsOf, startJoinCluster } from './join-cluster.ts';
import { BenchMachine } from './join-machine.ts';
import { runJoinStartBench } from './join-start.ts';
import type { BenchResult } from '../result.ts';

const ALL_AT_ONCE = 500;
const CONCURRENT = 200;
const ALONE = 20;
/** Number of certificate renewals of each machine that joined alone. */
const RENEWALS_EACH = 15;

/**
 * Machines join in parallel over real attested TLS, with the built join service and signer and a real etcd.
 * Each machine has its own key and source address. A machine that is refused or times out counts as failed,
 * because nothing is retried.
 */
export async function runJoinBench(): Promise<readonly BenchResult[]> {
  const machines = Array.from(
    { length: ALL_AT_ONCE + CONCURRENT + ALONE },
    (_, index) => new BenchMachine(index),
  );
  for (const machine of machines) await machine.prepare();
  await using cluster = await startJoinCluster({
    inventory: machines.map(({ identity, name }) => ({ identity, name })),
  });
  const alone: number[] = [];
  for (const machine of machines.slice(0, ALONE))
    alone.push((await joinAll([machine], cluster)).latenciesMs[0] ?? 0);
  const renewed: number[] = [];
  for (let round = 0; round < RENEWALS_EACH; round++)
    for (const machine of machines.slice(0, ALONE)) renewed.push(await renewMs(machine, cluster));
  const some = await joinAll(machines.slice(ALONE, ALONE + CONCURRENT), cluster);
  const before = await serverCpu();
  const startMs = performance.now();
  const all = await joinAll(machines.slice(ALONE + CONCURRENT), cluster);
  const seconds = (performance.now() - startMs) / 1000;
  const cpuSeconds = (await serverCpu()) - before;
  const names = await cluster.names();
  const doubled = names.length - new Set(names).size;
  const failures = [...some.failures, ...all.failures];
  return [
    ...(await runJoinStartBench()),
    {
      name: 'failed before any retry',
      value: failures.length,
      unit: '',
      limit: 0,
      detail: `${ALL_AT_ONCE} machines at once, after ${CONCURRENT} at once${failures.length === 0 ? '' : `: ${[...new Set(failures)].join('; ').slice(0, 200)}`}`,
    },
    {
      name: 'members twice or missing',
      value: doubled + Math.abs(names.length - 1 - machines.length + failures.length),
      unit: '',
      limit: 0,
      detail: `${names.length - 1} nodes on record for ${machines.length} machines`,
    },
    {
      name: 'tickets per second and core',
      value: round(all.latenciesMs.length / cpuSeconds),
      unit: '',
      detail: `join service and signer used ${round(cpuSeconds)} s of CPU for ${all.latenciesMs.length} tickets; ${round(seconds)} s in all, with the machines on the same processors`,
    },
    {
      name: 'ticket, one machine alone, p99',
      value: round(percentile(alone, 0.99)),
      unit: 'ms',
      detail: `median ${round(percentile(alone, 0.5))} ms; TCP, attested TLS, admission, commit, three certificates`,
      runs: ALONE,
    },
    {
      name: 'renewal of the certificates of one machine, p99',
      value: round(percentile(renewed, 0.99)),
      unit: 'ms',
      detail: `median ${round(percentile(renewed, 0.5))} ms; one session with new evidence, and a ticket for new keys`,
      runs: renewed.length,
    },
    {
      name: `ticket, ${CONCURRENT} machines at once, p99`,
      value: round(percentile(some.latenciesMs, 0.99)),
      unit: 'ms',
      detail: `median ${round(percentile(some.latenciesMs, 0.5))} ms; all of them in one process beside the servers`,
      runs: CONCURRENT,
    },
    {
      name: `ticket, ${ALL_AT_ONCE} machines at once, p99`,
      value: round(percentile(all.latenciesMs, 0.99)),
      unit: 'ms',
      detail: `median ${round(percentile(all.latenciesMs, 0.5))} ms`,
      runs: ALL_AT_ONCE,
    },
  ];

  async function serverCpu(): Promise<number> {
    return (await cpuSecondsOf(cluster.joinservicePid)) + (await cpuSecondsOf(cluster.signerPid));
  }
}

async function joinAll(
  machines: readonly BenchMachine[],
  { host, port }: { readonly host: string; readonly port: number },
): Promise<{ readonly latenciesMs: readonly number[]; readonly failures: readonly string[] }> {
  const failures: string[] = [];
  const latencies = await Promise.all(
    machines.map(async (machine) => {
      const startMs = performance.now();
      try {
        const ticket = await machine.join(host, port);
        if (ticket.nodeName !== machine.name) failures.push(`${machine.name} became ${ticket.nodeName}`);
        return performance.now() - startMs;
      } catch (error) {
        failures.push(error instanceof Error && 'code' in error ? String(error.code) : String(error));
        return undefined;
      }
    }),
  );
  return { latenciesMs: latencies.filter((each) => each !== undefined), failures };
}

async function renewMs(
  machine: BenchMachine,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<number> {
  await machine.prepare(); // Not measured: the machine creates its new keys.
  const startMs = performance.now();
  const ticket = await machine.renew(host, port);
  if (ticket.nodeName !== machine.name) throw new Error(`${machine.name} became ${ticket.nodeName}`);
  return performance.now() - startMs;
}

function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
