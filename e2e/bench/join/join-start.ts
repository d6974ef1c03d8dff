import { performance } from 'node:perf_hooks';
import { TpmValidator } from '../../../internal/attestation/tpm/index.ts';
import { createSwtpmFactory, tpmHardware, tpmIdentity } from '../../../internal/testing/index.ts';
import type { Tpm } from '../../../internal/tpm/index.ts';
import { startJoinCluster } from './join-cluster.ts';
import { ANY_MACHINE, BenchMachine } from './join-machine.ts';
import type { BenchResult } from '../result.ts';

const STARTS = 30;
/** Number of verifications that are not measured, because V8 still compiles the code during them. */
const WARM_UP = 1_500;
const BATCHES = 10;
const BATCH = 300;
const LIMIT_MS = 2_000;

/**
 * Thirty machines, each with its own software TPM, join an idle cluster one after the other. Measures the
 * time from an agent that knows only the endpoint of the join service to its ticket. The time includes the
 * creation of all keys, also of those in the TPM.
 */
export async function runJoinStartBench(): Promise<readonly BenchResult[]> {
  await using tpms = new AsyncDisposableStack();
  const server = await tpmIn(tpms);
  const machines: { readonly tpm: Tpm; readonly identity: string; readonly name: string }[] = [];
  for (let index = 0; index < STARTS; index++) {
    const tpm = await tpmIn(tpms);
    machines.push({ tpm, identity: await tpmIdentity(tpm), name: `m-${index}` });
  }
  await using cluster = await startJoinCluster({
    inventory: machines.map(({ identity, name }) => ({ identity, name })),
    tpm: server,
  });
  const tookMs: number[] = [];
  for (const [index, { tpm }] of machines.entries()) {
    const startMs = performance.now();
    const machine = new BenchMachine(index, tpmHardware(tpm));
    const ticket = await machine.join(cluster.host, cluster.port);
    tookMs.push(performance.now() - startMs);
    if (ticket.nodeName !== machine.name) throw new Error(`${machine.name} became ${ticket.nodeName}`);
  }
  const sorted = tookMs.toSorted((a, b) => a - b);
  const slowest = sorted.at(-1) ?? 0; // with thirty samples, the largest one is the 99th percentile
  const verifiedMs = await verificationMs(server);
  const verifyMs = verifiedMs[BATCHES >> 1] ?? 0;
  return [
    {
      name: 'agent start to ticket, with swtpm, p99',
      value: Math.round(slowest),
      unit: 'ms',
      limit: LIMIT_MS,
      spread: [Math.round(sorted[0] ?? 0), Math.round(slowest)],
      runs: STARTS,
      detail: `median ${Math.round(sorted[STARTS >> 1] ?? 0)} ms; TPM keys, two sessions, challenge, lock, commit; idle cluster; without the start of Node`,
    },
    {
      name: 'verification of one TPM evidence alone',
      value: Math.round(verifyMs * 1000) / 1000,
      unit: 'ms',
      spread: [
        Math.round((verifiedMs[0] ?? 0) * 1000) / 1000,
        Math.round((verifiedMs.at(-1) ?? 0) * 1000) / 1000,
      ],
      runs: BATCHES * BATCH,
      detail: `${Math.round(1000 / verifyMs)} a second and core; a ticket takes two at each end`,
    },
  ];
}

async function tpmIn(tpms: AsyncDisposableStack): Promise<Tpm> {
  const factory = tpms.use(await createSwtpmFactory());
  return tpms.use(tpms.use(await factory.start()).open());
}

/**
 * Verifies evidence in batches. Returns the mean time of one verification for each batch, in ms, the shortest first.
 */
async function verificationMs(tpm: Tpm): Promise<readonly number[]> {
  const { issuer } = tpmHardware(tpm);
  const binding = new Uint8Array(64).fill(7);
  const signal = new AbortController().signal;
  if (!('issue' in issuer)) throw new Error('the issuer of a TPM has no issue()');
  const document = await issuer.issue(binding, signal);
  const validator = new TpmValidator();
  const context = { ...ANY_MACHINE, nowMs: Date.now() };
  await validator.validate(document, binding, context);
  for (let i = 0; i < WARM_UP; i++) await validator.validate(document, binding, context);
  const batchesMs: number[] = [];
  for (let batch = 0; batch < BATCHES; batch++) {
    const startMs = performance.now();
    for (let i = 0; i < BATCH; i++) await validator.validate(document, binding, context);
    batchesMs.push((performance.now() - startMs) / BATCH);
  }
  return batchesMs.toSorted((a, b) => a - b);
}
