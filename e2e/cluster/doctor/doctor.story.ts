import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createHarness, type CliResult, type Harness } from '../../machines/harness.ts';
import { eventually, PAUSE_IMAGE } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'doctor';
const NODES = ['n1', 'n2', 'n3', 'n4'] as const;
const EXIT_UNHEALTHY = 10;
const EXIT_WARNINGS = 11;
const AHEAD_SECONDS = 3_600;
/** The begin of each log is longer. */
const MIN_LOG_BYTES = 500;
/**
 * Findings about the speed of the host. Other programs use the host too, so the story prints these findings and does
 * not assert them.
 */
const OF_THE_HOST: readonly string[] = [
  'doctor-fsync',
  'doctor-latency',
  'doctor-node-latency',
  'doctor-disk-space',
];

/** The unit on a machine that keeps a process stopped. */
const STOPPER = 'story-stopper';

/** The fields of the result that this story reads. */
interface Finding {
  readonly code: string;
  readonly grade: string;
  readonly subject: string;
  readonly node?: string;
  readonly cause: string;
  readonly figure: string;
}
interface Ending {
  readonly subject: string;
  /** ISO 8601. */
  readonly ends: string;
  /** Only of a forecast from growth. */
  readonly figure?: string;
}
interface SavedFacts {
  readonly records: {
    readonly value: {
      readonly nodes: readonly {
        readonly name: string;
        readonly certificates: readonly { readonly name: string; readonly notAfterMs: number }[];
      }[];
    };
  };
}
interface Diagnosis {
  /** Likely causes first. */
  readonly problems: readonly Finding[];
  readonly findings: readonly Finding[];
  readonly roundTrips: readonly { readonly from: string; readonly to: string; readonly ms: number }[];
}

function isProblem({ grade, code }: Finding): boolean {
  return grade !== 'good' && !OF_THE_HOST.includes(code);
}

function firstOf({ problems }: Diagnosis): Finding | undefined {
  return problems.find(isProblem);
}

/** A pod and a budget that permits no eviction of it. */
const BLOCKED = JSON.stringify({
  apiVersion: 'v1',
  kind: 'List',
  items: [
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'blocked' },
      spec: {
        replicas: 1,
        selector: { matchLabels: { app: 'blocked' } },
        template: {
          metadata: { labels: { app: 'blocked' } },
          spec: { containers: [{ name: 'pause', image: PAUSE_IMAGE }] },
        },
      },
    },
    {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'blocked' },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'blocked' } } },
    },
  ],
});

await test('doctor names the cause of each fault first', async (story) => {
  await using bench = await createHarness();
  await bench.must('mini', 'up', '--name', NAME, '--control-planes', '3', '--workers', '1');
  const cluster = new StoryCluster(bench, NAME);
  await cluster.allReady(NODES, 60);
  const doctor = await createDoctor(bench, cluster);

  let bundles = 0;
  /** Makes a support bundle of one node at the workstation, opens it, and requires the logs of etcd and of the agent. */
  const hasLogs = async (step: TestContext, node: string): Promise<void> => {
    const file = join(bench.directory, `${++bundles}.support`);
    const made = await cluster.cliJson<{ readonly missing: readonly { readonly path: string }[] }>(
      ...['support', 'bundle', node, '--to', file],
    );
    step.diagnostic(`missing: ${JSON.stringify(made.missing)}`);
    const directory = join(bench.directory, `opened-${bundles}`);
    await bench.cli('--workspace', await cluster.workspace(), 'support', 'open', file, '--to', directory);
    for (const log of ['agent', 'cluster-etcd-state', 'cluster-etcd-kubernetes']) {
      const { size } = await stat(join(directory, 'nodes', node, `${log}.log`));
      assert.ok(size > MIN_LOG_BYTES, `${log}.log of ${node} has ${size} bytes`);
    }
  };

  await story.test('a healthy cluster has nothing but good findings', async (step) => {
    const { diagnosis } = await doctor.untilGood(step);
    assert.deepEqual(diagnosis.findings.filter(isProblem), []);
    assert.ok(diagnosis.findings.length > 60, `only ${diagnosis.findings.length} findings`);
  });

  await story.test('saved facts are judged offline in the same way', async () => {
    const path = join(bench.directory, 'facts.json');
    const saved = await doctor.run(['--save-facts', path]);
    const offline = await doctor.run(['--facts', path]);
    assert.deepEqual(offline.diagnosis, saved.diagnosis);
    assert.doesNotMatch(await readFile(path, 'utf8'), /PRIVATE KEY/);
  });

  await story.test('what --at foretells ends when the clock gets there', async (step) => {
    const path = join(bench.directory, 'later.json');
    const { stdout } = await bench.cli(
      ...['--workspace', await cluster.workspace(), 'doctor', '--at', '+400d', '--output', 'json'],
      ...['--save-facts', path],
    );
    const { endings } = resultOf<{ readonly endings: readonly Ending[] }>(stdout);
    const facts = JSON.parse(await readFile(path, 'utf8')) as SavedFacts;
    const moved = join(bench.directory, 'moved.json');
    /** What has ended at this time, if nobody has renewed anything. */
    const endedAt = async (takenMs: number): Promise<ReadonlySet<string>> => {
      await writeFile(moved, JSON.stringify({ ...facts, takenMs }));
      const { diagnosis } = await doctor.run(['--facts', moved]);
      const ended = diagnosis.findings.filter(({ figure }) => /^(?:ended|expired)/.test(figure));
      return new Set(ended.map(({ code, subject }) => `${code} ${subject}`));
    };
    const times = [
      ...new Set(endings.filter(({ figure }) => figure === undefined).map(({ ends }) => Date.parse(ends))),
    ];
    assert.ok(times.length > NODES.length, `only ${times.length} times`);
    for (const endsMs of times) {
      const before = await endedAt(endsMs - 1);
      const more = [...(await endedAt(endsMs))].filter((each) => !before.has(each));
      step.diagnostic(`${new Date(endsMs).toISOString()}: ${more.join(', ')}`);
      assert.ok(more.length > 0, `nothing ends at ${endsMs}`);
    }
    const { certificates } = facts.records.value.nodes.find(({ name }) => name === 'n1') ?? {
      certificates: [],
    };
    assert.ok(certificates.length > 5, JSON.stringify(certificates));
    for (const { name, notAfterMs } of certificates) {
      /** Whether OpenSSL on the machine finds that the file has expired when its clock is a minute before or after that. */
      const isExpired = async (minutes: number): Promise<boolean> => {
        const pem = name.endsWith('.conf')
          ? `sed -n 's/.*client-certificate-data: //p' ${name} | base64 -d`
          : `cat ${name}`;
        const script = `${pem} | openssl x509 -noout -checkend $(( ${Math.floor(notAfterMs / 1000)} + ${minutes * 60} - $(date +%s) ))`;
        return (await cluster.try('n1', 'sh', '-c', script)).code !== 0;
      };
      assert.deepEqual([await isExpired(-1), await isExpired(1)], [false, true], name);
    }
  });

  await story.test('a wrong clock of the workstation', async (step) => {
    const shifted = await createShiftedClock(bench);
    await doctor.names(step, { code: 'doctor-clock', environment: shifted });
  });

  await story.test('CoreDNS scaled to 0', async (step) => {
    await cluster.sh('n1', 'kubectl -n kube-system scale deployment coredns --replicas 0');
    await doctor.names(step, { code: 'doctor-dns' });
    await cluster.sh('n1', 'kubectl -n kube-system scale deployment coredns --replicas 2');
    await doctor.untilGood(step);
  });

  await story.test(
    'a node that the DNS of the cluster does not answer, while all of its pods are ready',
    async (step) => {
      const address = await cluster.sh(
        'n1',
        "kubectl -n kube-system get service kube-dns -o 'jsonpath={.spec.clusterIP}'",
      );
      const rule = `OUTPUT -d ${address} -p udp --dport 53 -j DROP`;
      await cluster.sh('n4', `iptables -t mangle -I ${rule}`);
      await doctor.names(step, { code: 'doctor-name-lookup', node: 'n4', withinSeconds: 150 });
      await cluster.sh('n4', `iptables -t mangle -D ${rule}`);
      await doctor.untilGood(step);
    },
  );

  await story.test('a firewall in front of a join service', async (step) => {
    const rule = 'INPUT -p tcp --dport 9090 -j DROP';
    await cluster.sh('n2', `iptables -I ${rule}`);
    await doctor.names(step, { code: 'doctor-join-service', node: 'n2' });
    await cluster.sh('n2', `iptables -D ${rule}`);
    await doctor.untilGood(step);
  });

  await story.test('a PodDisruptionBudget that blocks every drain is a warning', async (step) => {
    const base64 = Buffer.from(BLOCKED).toString('base64');
    await cluster.sh('n1', `echo ${base64} | base64 -d | kubectl apply -f -`);
    await doctor.names(step, { code: 'doctor-budget', exit: EXIT_WARNINGS });
    await cluster.sh('n1', 'kubectl delete deployment,poddisruptionbudget blocked');
    await doctor.untilGood(step);
  });

  await story.test('a stopped kubelet', async (step) => {
    await whileStopped(cluster, { node: 'n4', pid: await cluster.pidOf('n4', 'kubelet') }, () =>
      doctor.names(step, { code: 'doctor-kubelet', node: 'n4' }),
    );
    await doctor.untilGood(step);
  });

  await story.test('a stopped API server', async (step) => {
    const pid = await cluster.sh('n2', 'pgrep -o -x kube-apiserver');
    await whileStopped(cluster, { node: 'n2', pid }, () =>
      doctor.names(step, { code: 'doctor-api-server', node: 'n2' }),
    );
    await doctor.untilGood(step);
  });

  for (const [unit, subject] of [
    ['cluster-etcd-state', 'state etcd of n3'],
    ['cluster-etcd-kubernetes', 'Kubernetes etcd of n3'],
  ] as const)
    await story.test(`a stopped member: ${subject}`, async (step) => {
      await whileStoppedAgain(cluster, { node: 'n3', unit }, () =>
        doctor.names(step, { code: 'doctor-etcd-member', node: 'n3', subject }),
      );
      await doctor.untilGood(step);
    });

  await story.test('a support bundle has the logs of a node whose etcd is stopped', async (step) => {
    await whileStoppedAgain(cluster, { node: 'n3', unit: 'cluster-etcd-state' }, () => hasLogs(step, 'n3'));
    await doctor.untilGood(step);
  });

  await story.test(
    'a support bundle has the logs of a control plane that only its neighbours reach',
    async (step) => {
      const rule = `INPUT -s ${await cluster.workstation()} -j DROP`;
      await cluster.sh('n3', `iptables -I ${rule}`);
      await doctor.names(step, { code: 'doctor-curator', node: 'n3' });
      await hasLogs(step, 'n3');
      await cluster.sh('n3', `iptables -D ${rule}`);
      await doctor.untilGood(step);
    },
  );

  await story.test('every node has measured the round trips to all others', async (step) => {
    const { diagnosis } = await eventually(
      'each node has a figure for each other one',
      240,
      () => doctor.run(),
      ({ diagnosis: { roundTrips } }) => roundTrips.length === NODES.length * (NODES.length - 1),
    );
    step.diagnostic(diagnosis.roundTrips.map(({ from, to, ms }) => `${from} to ${to}: ${ms} ms`).join('; '));
    const found = diagnosis.findings.filter(({ code }) => code === 'doctor-node-latency');
    for (const { subject, figure } of found) assert.match(figure, /^median round trip .* ms, to n/, subject);
  });

  await story.test('a node without power', async (step) => {
    await cluster.cutPower('n4');
    await doctor.names(step, { code: 'doctor-node-silent', node: 'n4' });
    await cluster.start('n4');
    await cluster.allReady(NODES, 180);
    await doctor.untilGood(step);
  });

  await story.test('a lost quorum; the remaining machines are still checked', async (step) => {
    await cluster.cutPower('n2');
    await cluster.cutPower('n3');
    const { findings } = await doctor.names(step, { code: 'doctor-etcd-quorum' });
    assert.ok(findings.some(({ code, grade }) => code === 'doctor-credentials' && grade === 'good'));
    assert.ok(findings.some(({ code, grade }) => code === 'doctor-certificate' && grade === 'unknown'));
  });
});

interface Expected {
  readonly code: string;
  readonly node?: string;
  readonly subject?: string;
  /** The expected exit code. Default: the exit code for errors. */
  readonly exit?: number;
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: 60. */
  readonly withinSeconds?: number;
}

async function createDoctor(bench: Harness, cluster: StoryCluster) {
  const workspace = await cluster.workspace();
  const run = async (args: readonly string[] = [], environment: Readonly<Record<string, string>> = {}) => {
    const startedMs = Date.now();
    const child = bench.startCliIn(
      environment,
      ...['--workspace', workspace, 'doctor', ...args, '--output', 'json'],
    );
    const { code, stdout, stderr } = await outputOf(child);
    const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as { readonly data?: Diagnosis };
    assert.ok(last.data !== undefined, `doctor ended with ${code}: ${stdout} ${stderr}`);
    return { code, diagnosis: last.data, ms: Date.now() - startedMs };
  };
  const untilGood = async (step: TestContext) => {
    const result = await eventually(
      'doctor finds nothing',
      240,
      async () => {
        const seen = await run();
        const wrong = seen.diagnosis.findings.filter(isProblem);
        if (wrong.length > 0) step.diagnostic(wrong.map(({ code, cause }) => `${code}: ${cause}`).join('; '));
        return seen;
      },
      ({ diagnosis }) => !diagnosis.findings.some(isProblem),
    );
    const ofTheHost = result.diagnosis.findings.filter(({ grade }) => grade !== 'good');
    assert.equal(result.code, ofTheHost.length === 0 ? 0 : EXIT_WARNINGS);
    for (const { cause } of ofTheHost) step.diagnostic(`of the host: ${cause}`);
    step.diagnostic(`good; the run took ${result.ms} ms`);
    return result;
  };
  const names = async (step: TestContext, expected: Expected): Promise<Diagnosis> => {
    const startedMs = Date.now();
    const { diagnosis, code, ms } = await eventually(
      `doctor names ${expected.code} first`,
      expected.withinSeconds ?? 60,
      async () => {
        const seen = await run([], expected.environment);
        const first = firstOf(seen.diagnosis);
        step.diagnostic(`first: ${first?.code} ${first?.subject}: ${first?.cause}`);
        return seen;
      },
      ({ diagnosis: seen }) => firstOf(seen)?.code === expected.code,
    );
    step.diagnostic(`named after ${Date.now() - startedMs} ms; the last run took ${ms} ms`);
    assert.equal(code, expected.exit ?? EXIT_UNHEALTHY);
    const first = firstOf(diagnosis);
    if (expected.node !== undefined) assert.equal(first?.node, expected.node);
    if (expected.subject !== undefined) assert.equal(first?.subject, expected.subject);
    return diagnosis;
  };
  return { run, untilGood, names };
}

async function outputOf(child: ReturnType<Harness['startCliIn']>): Promise<CliResult> {
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exit) => resolve(exit ?? -1));
  });
  return { code, stdout, stderr };
}

/** The data of the result of a command with `--output json`, whatever its exit code. */
function resultOf<T>(stdout: string): T {
  const last = JSON.parse(stdout.trim().split('\n').at(-1) ?? '{}') as { readonly data?: T };
  assert.ok(last.data, stdout);
  return last.data;
}

/** Stops a process with SIGSTOP for as long as `work` runs. */
async function whileStopped(
  cluster: StoryCluster,
  { node, pid }: { readonly node: string; readonly pid: string },
  work: () => Promise<unknown>,
): Promise<void> {
  await cluster.run(node, 'kill', '-STOP', pid);
  try {
    await work();
  } finally {
    await cluster.try(node, 'kill', '-CONT', pid); // the kubelet or systemd may have killed it meanwhile
  }
}

/** Stops the main process of a unit again each time that the agent has replaced it, as it does with hung services within seconds. */
async function whileStoppedAgain(
  cluster: StoryCluster,
  { node, unit }: { readonly node: string; readonly unit: string },
  work: () => Promise<unknown>,
): Promise<void> {
  const script = `/run/${STOPPER}.sh`;
  // In a file, because systemd would replace "$pid". While the service starts it has no process, and 0 would stop the loop itself.
  const loop = `while :; do pid=$(systemctl show --property MainPID --value ${unit}); [ "$pid" = 0 ] || kill -STOP "$pid"; sleep 0.2; done`;
  await cluster.sh(
    node,
    `cat > ${script} <<'END'\n${loop}\nEND\nsystemd-run --quiet --collect --unit=${STOPPER} sh ${script}`,
  );
  try {
    await work();
  } finally {
    await cluster.sh(
      node,
      `systemctl stop ${STOPPER}; kill -CONT $(systemctl show --property MainPID --value ${unit}) || true`,
    );
  }
}

/** The environment of a program that sees a clock which is ahead. */
async function createShiftedClock(bench: Harness): Promise<Readonly<Record<string, string>>> {
  const library = join(bench.directory, 'shifted-clock.so');
  const source = join(import.meta.dirname, '../harness/shifted-clock.c');
  await bench.machines.commands.run({
    argv: ['gcc', '-shared', '-fPIC', '-O2', '-o', library, source, '-ldl'],
    signal: bench.signal,
  });
  return { LD_PRELOAD: library, CLOCK_SHIFT_SECONDS: String(AHEAD_SECONDS) };
}
