import type { LocalNode } from '../../../internal/localmachines/index.ts';
import type { BenchResult } from '../result.ts';

const MB = 1e6;
const SETTLE_SECONDS = 30;
const IDLE_SECONDS = 60;
const TICKS_PER_SECOND = 100;

interface Resident {
  readonly name: string;
  readonly unit: string;
  readonly memoryLimitMb?: number;
  readonly cpuLimitPercent?: number;
}

const ON_EVERY_NODE: readonly Resident[] = [
  { name: 'agent', unit: 'bootstrapper', memoryLimitMb: 48, cpuLimitPercent: 0.2 },
  { name: 'API balancer', unit: 'cluster-apilb' },
];
/** The programs of this project that run permanently on a node, by kind of node. */
const RESIDENTS = {
  'control-plane node': [
    ...ON_EVERY_NODE,
    { name: 'joinservice', unit: 'cluster-joinservice', memoryLimitMb: 80 },
    { name: 'signer', unit: 'cluster-signer' },
  ],
  worker: [...ON_EVERY_NODE, { name: 'relay', unit: 'cluster-relay' }],
} as const satisfies Record<string, readonly Resident[]>;

/**
 * Measures the resident programs of an idle node: their anonymous memory, and their CPU time over a minute.
 */
export async function measureIdle(
  node: LocalNode,
  signal: AbortSignal,
  kind: keyof typeof RESIDENTS = 'control-plane node',
): Promise<readonly BenchResult[]> {
  const residents: readonly Resident[] = RESIDENTS[kind];
  const script = `for unit in ${residents.map(({ unit }) => unit).join(' ')}; do
    pid=$(systemctl show --property MainPID --value $unit)
    echo "$unit $pid $(sed -n 's/^RssAnon:[^0-9]*\\([0-9]*\\) kB$/\\1/p' /proc/$pid/status) $(cut -d' ' -f14-17 /proc/$pid/stat)"
  done`;
  const look = async (): Promise<ReadonlyMap<string, Reading>> => {
    const { stdout } = await node.exec(['sh', '-c', script], { signal });
    return parseReadings(stdout);
  };
  const wait = (seconds: number) => node.exec(['sleep', String(seconds)], { signal });
  await wait(SETTLE_SECONDS);
  const before = await look();
  await wait(IDLE_SECONDS);
  const after = await look();
  return residents.flatMap((resident) =>
    resultsOf(resident, kind, before.get(resident.unit), after.get(resident.unit)),
  );
}

export interface Reading {
  readonly pid: string;
  readonly anonymousBytes: number;
  /** CPU time of the process and of its children that have ended. */
  readonly cpuSeconds: number;
}

/** Parses lines of "UNIT PID KIB TICKS TICKS TICKS TICKS": memory, and the four CPU times of /proc/PID/stat. */
export function parseReadings(text: string): ReadonlyMap<string, Reading> {
  return new Map(
    text
      .trim()
      .split('\n')
      .map((line) => {
        const [unit = '', pid = '', kib, ...ticks] = line.split(' ');
        const cpuSeconds = ticks.reduce((sum, each) => sum + Number(each), 0) / TICKS_PER_SECOND;
        return [unit, { pid, anonymousBytes: Number(kib) * 1024, cpuSeconds }];
      }),
  );
}

function resultsOf(
  { name, memoryLimitMb, cpuLimitPercent }: Resident,
  kind: string,
  before: Reading | undefined,
  after: Reading | undefined,
): readonly BenchResult[] {
  if (before === undefined || after === undefined || before.pid !== after.pid) {
    throw new Error(`measuring the idle ${name}: it did not run all the time`);
  }
  const seconds = after.cpuSeconds - before.cpuSeconds;
  return [
    {
      name: `${name}, idle on a ${kind}: anonymous memory`,
      value: after.anonymousBytes / MB,
      unit: 'MB',
      ...(memoryLimitMb === undefined ? {} : { limit: memoryLimitMb }),
      detail: `RssAnon on a ${kind}`,
    },
    {
      name: `${name}, idle on a ${kind}: CPU`,
      value: (seconds / IDLE_SECONDS) * 100,
      unit: '%',
      ...(cpuLimitPercent === undefined ? {} : { limit: cpuLimitPercent }),
      detail: `${seconds.toFixed(2)} s of one core in ${IDLE_SECONDS} s, children included`,
    },
  ];
}

/** Restarts the agent on a running node, and returns the time until systemd counts it as started. */
export async function measureRestart(node: LocalNode, signal: AbortSignal): Promise<BenchResult> {
  const startMs = performance.now();
  await node.exec(['systemctl', 'restart', 'bootstrapper'], { signal });
  const value = (performance.now() - startMs) / 1000;
  return {
    name: 'agent: restart until it is ready',
    value,
    unit: 's',
    detail: 'systemctl restart bootstrapper',
  };
}
