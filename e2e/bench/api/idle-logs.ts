import { setTimeout as delay } from 'node:timers/promises';
import type { LocalNode } from '../../../internal/localmachines/index.ts';
import type { BenchResult } from '../result.ts';
import type { MeasuredCluster, TwoClusters } from './two-clusters.ts';

const SETTLE_MS = 60_000;
const WINDOW_MS = 60_000;
/**
 * Logs of the API server and of an etcd that runs as a static pod, and the journal of an etcd that runs as a systemd
 * unit. Each source follows a line with its name.
 */
const READ = `for log in /var/log/pods/kube-system_kube-apiserver-*/*/*.log /var/log/pods/kube-system_etcd-*/*/*.log; do
  if [ -e "$log" ]; then echo "==> $log"; cat "$log"; fi
done
echo "==> journal"; journalctl --unit 'cluster-etcd*' --output cat --no-pager 2> /dev/null || true`;
const SOURCE = /^==> (\/\S+|journal)$/;

/** The lines of each source of logs, by its path or as `journal`. */
type Logs = ReadonlyMap<string, readonly string[]>;

/**
 * Compares what API servers and etcds of both clusters log in a minute without work: warnings and errors of ours that the plain
 * cluster does not have.
 */
export async function compareIdleLogs({ ours, theirs, signal }: TwoClusters): Promise<BenchResult> {
  await delay(SETTLE_MS);
  const before = await Promise.all([ours, theirs].map((cluster) => readLogs(cluster, signal)));
  await delay(WINDOW_MS);
  const after = await Promise.all([ours, theirs].map((cluster) => readLogs(cluster, signal)));
  const [own = new Set<string>(), plain = new Set<string>()] = after.map((logs, index) =>
    complaintsOf(logs.flatMap((each, node) => newLines(before[index]?.[node] ?? new Map(), each))),
  );
  const additional = [...own].filter((complaint) => !plain.has(complaint));
  return {
    name: 'kinds of warnings and errors in the logs of a minute without work that a plain cluster does not have',
    ...{ value: additional.length, unit: '', limit: 0 },
    detail: `API servers and etcds; ${own.size} kinds, plain ${plain.size}${additional.map((each) => `; ${each}`).join('')}`,
  };
}

async function readLogs({ controlPlanes }: MeasuredCluster, signal: AbortSignal): Promise<readonly Logs[]> {
  const read = async (node: LocalNode): Promise<Logs> => {
    const { stdout } = await node.exec(['sh', '-c', READ], { signal });
    if (!/kube-apiserver|etcd/.test(stdout))
      throw new Error(`${node.name} has no logs of API server and etcd`);
    return bySource(stdout);
  };
  return Promise.all(controlPlanes.map(read));
}

/** Separates the sources, because a line that one of them gets is in the middle of the whole text. */
export function bySource(text: string): Logs {
  const sources = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.split('\n')) {
    const name = SOURCE.exec(line)?.[1];
    if (name === undefined) {
      if (line !== '') lines.push(line);
    } else sources.set(name, (lines = []));
  }
  return sources;
}

/** The lines that each source has got. A file with fewer lines than before was replaced, so all of its lines are new. */
export function newLines(before: Logs, after: Logs): readonly string[] {
  return [...after].flatMap(([source, lines]) => {
    const old = before.get(source)?.length ?? 0;
    return lines.length < old ? lines : lines.slice(old);
  });
}

/**
 * The different warnings and errors, each as source position and text. Numbers are removed from the text, so that
 * equal messages count once. klog writes "W1127 07:00:00.000000 1 file.go:12] text", etcd JSON with `level`, `caller`
 * and `msg`. Containerd puts its own time and stream before each line.
 */
export function complaintsOf(lines: readonly string[]): Set<string> {
  const found = new Set<string>();
  for (const line of lines) {
    const [, klog, text = ''] = /(?:^| )[WE]\d{4} [\d:.]+ +\d+ ([\w.]+:\d+)\] (.*)$/.exec(line) ?? [];
    if (klog !== undefined) found.add(`${klog} ${withoutFigures(text)}`);
    const [, level] = /"level":"(warn|error)"/.exec(line) ?? [];
    const [, caller] = /"caller":"([^"]+)"/.exec(line) ?? [];
    const [, msg = ''] = /"msg":"([^"]*)"/.exec(line) ?? [];
    if (level !== undefined && caller !== undefined) found.add(`${caller} ${withoutFigures(msg)}`);
  }
  return found;
}

function withoutFigures(text: string): string {
  return text.replace(/"[^"]*"|[0-9a-f]*\d[0-9a-f.:]*/g, '…').slice(0, 80);
}
