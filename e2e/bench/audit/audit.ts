import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '../../cluster/harness/node-shell.ts';
import { StoryCluster } from '../../cluster/harness/story-cluster.ts';
import { createHarness } from '../../machines/harness.ts';
import { ApiClient } from '../api/api-client.ts';
import { median, middleOf, type BenchResult } from '../result.ts';

const NAME = 'bench-audit';
const NODE = 'n1';
const ROUNDS = 3;
const WRITES_PER_SECOND = 100;
const SECONDS = 60;
const OBJECTS = 50;
const TICKS_PER_SECOND = 100;
const RESTART_SECONDS = 120;
/** For controllers, after the API server has restarted. */
const SETTLE_MS = 20_000;
const MAPS = '/api/v1/namespaces/default/configmaps';
const MANIFEST = '/etc/kubernetes/manifests/kube-apiserver.yaml';
const KEPT = '/root/kube-apiserver.yaml';
/** Percent of one core. */
const LIMIT_PERCENT = 3;

/**
 * Measures what the audit log costs: the processor time of an API server that gets 100 writes a second, with the audit policy of clusters
 * and, in turns, without one.
 */
export async function runAuditBench(rounds = ROUNDS): Promise<readonly BenchResult[]> {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '1', '--workers', '0');
  using client = await ApiClient.open(join(await cluster.workspace(), 'kubeconfig'));
  const host = await cluster.address(NODE);
  await cluster.sh(NODE, `cp ${MANIFEST} ${KEPT}`);
  for (let index = 0; index < OBJECTS; index++)
    await client.call(host, 'POST', MAPS, { metadata: { name: `written-${index}` }, data: { n: '0' } });
  const measure = async (isAudited: boolean): Promise<number> => {
    await setAudit(cluster, isAudited);
    await delay(SETTLE_MS, undefined, { signal: bench.signal });
    const before = await processorSeconds(cluster);
    await write(client, host);
    return (await processorSeconds(cluster)) - before;
  };
  const [audited, plain]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? [false, true] : [true, false];
    for (const isAudited of order) (isAudited ? audited : plain).push(await measure(isAudited));
    process.stderr.write(`round ${round + 1}: ${audited.at(-1)} s audited, ${plain.at(-1)} s not\n`);
  }
  const share = audited.map((seconds, round) =>
    Math.max(0, ((seconds - (plain[round] ?? NaN)) / SECONDS) * 100),
  );
  const ratio = audited.map((seconds, round) => seconds / (plain[round] ?? NaN));
  const what = `audit log at ${WRITES_PER_SECOND} writes a second: CPU time of the API server`;
  return [
    {
      name: `${what}, of one core`,
      ...middleOf(share),
      ...{ unit: '%', limit: LIMIT_PERCENT },
      detail: `${median(audited).toFixed(2)} s in ${SECONDS} s, without an audit log ${median(plain).toFixed(2)} s`,
    },
    { name: `${what}, ÷ without`, ...middleOf(ratio), unit: '×', detail: '' },
  ];
}

/** Restarts the API server with or without its audit log. */
async function setAudit(cluster: StoryCluster, isAudited: boolean): Promise<void> {
  // The kubelet reads every file of the directory of manifests.
  const filter = isAudited ? 'cat' : "grep -v -e '- --audit-'";
  await cluster.sh(NODE, `${filter} ${KEPT} > ${KEPT}.new && mv ${KEPT}.new ${MANIFEST}`);
  await eventually(
    `the API server runs ${isAudited ? 'with' : 'without'} an audit log`,
    RESTART_SECONDS,
    () =>
      cluster.try(
        NODE,
        ...['sh', '-c', `kubectl get --raw /readyz >/dev/null && tr '\\0' ' ' < /proc/$(${PROCESS})/cmdline`],
      ),
    ({ code, stdout }) => code === 0 && stdout.includes('--audit-policy-file') === isAudited,
  );
}

const PROCESS = 'pgrep -o -x kube-apiserver';

async function processorSeconds(cluster: StoryCluster): Promise<number> {
  const ticks = await cluster.sh(NODE, `cut -d' ' -f14,15 /proc/$(${PROCESS})/stat`);
  return ticks.split(' ').reduce((sum, each) => sum + Number(each), 0) / TICKS_PER_SECOND;
}

/** Writes at a constant rate. A write that is late does not delay those after it. */
async function write(client: ApiClient, host: string): Promise<void> {
  const startMs = performance.now();
  const writes: Promise<string>[] = [];
  for (let count = 0; count < WRITES_PER_SECOND * SECONDS; count++) {
    const waitMs = startMs + (count * 1000) / WRITES_PER_SECOND - performance.now();
    if (waitMs > 0) await delay(waitMs);
    const path = `${MAPS}/written-${count % OBJECTS}`;
    writes.push(client.call(host, 'PATCH', path, { data: { n: String(count) } }));
  }
  await Promise.all(writes);
}
