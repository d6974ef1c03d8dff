import { describe, expect, test } from '@jest/globals';
import { FakeClock, MemoryFiles } from '../../internal/testing/index.ts';
import { StaticPodLogs } from './static-pod-logs.ts';

const PODS = '/var/log/pods';
const NAME = 'kube-apiserver';
const signal = new AbortController().signal;
const cri = (...lines: string[]): string => criAt('2026-11-28T09:53:05.238785Z', ...lines);
const criAt = (time: string, ...lines: string[]): string =>
  lines.map((line) => `${time} stderr F ${line}\n`).join('');

function createLogs() {
  const files = new MemoryFiles();
  const clock = new FakeClock(Date.parse('2026-11-28T09:53:06Z'));
  const startMs = clock.nowMs();
  const stat = files.stat.bind(files);
  files.stat = async (path) => {
    const found = await stat(path);
    return found && { ...found, modifiedMs: startMs + found.modifiedMs };
  };
  const read: { path: string; offset: number }[] = [];
  async function* readChunks(path: string, { offset = 0 }: { readonly offset?: number }) {
    read.push({ path, offset });
    const bytes = await files.read(path, Infinity);
    if (bytes === undefined) throw new Error(`no ${path}`);
    for (let at = offset; at < bytes.length; at += 1000) yield bytes.slice(at, at + 1000);
  }
  const write = async (pod: string, log: string, text: string): Promise<void> => {
    await files.makeDirectory(`${PODS}/${pod}/${NAME}`);
    await files.writeAtomic(`${PODS}/${pod}/${NAME}/${log}`, text);
  };
  const logs = new StaticPodLogs({ files, clock, streams: { readChunks } });
  return { files, clock, read, write, lastError: () => logs.lastError(NAME, signal) };
}

describe('StaticPodLogs.lastError()', () => {
  test('reads the newest log of all containers with all manifests', async () => {
    const { write, lastError } = createLogs();
    await write('kube-system_kube-apiserver-n1_a', '10.log', cri('Error: of the newest container before'));
    await write('kube-system_kube-apiserver-n1_b', '1.log', cri('Error: of the newest container'));
    await write('kube-system_kube-scheduler-n1_c', '3.log', cri('Error: of another program'));
    await write('default_kube-apiserver-n1_d', '3.log', cri('Error: of a pod of a tenant'));
    await write('kube-system_kube-apiserver-n1_b', '0.log.20261128-095305', cri('Error: rotated'));
    expect(await lastError()).toBe('of the newest container');
  });

  test('reads the log before the newest one while that one has no error', async () => {
    const { write, lastError } = createLogs();
    await write('kube-system_kube-apiserver-n1_a', '0.log', cri('Error: unknown flag: --insecure-port'));
    await write('kube-system_kube-apiserver-n1_a', '1.log', '');
    expect(await lastError()).toBe('unknown flag: --insecure-port');
  });

  test('reads only the end of a large log', async () => {
    const { read, write, lastError } = createLogs();
    const old = cri('Error: long ago', ...Array<string>(10_000).fill('I1128 fine'));
    await write('kube-system_kube-apiserver-n1_a', '0.log', old);
    expect(await lastError()).toBeUndefined();
    expect(read.map(({ offset }) => old.length - offset)).toEqual([128 * 1024]);
  });

  test('ignores old lines of a log that has new ones, such as those before a restart of the machine', async () => {
    const { write, lastError } = createLogs();
    const old = criAt('2026-11-28T09:45:05.238785Z', 'Error: certificate signed by unknown authority');
    await write('kube-system_kube-apiserver-n1_a', '0.log', `${old}${cri('I1128 started')}`);
    expect(await lastError()).toBeUndefined();
  });

  test('ignores a log that nothing was written to for ten minutes', async () => {
    const { clock, write, lastError } = createLogs();
    await write('kube-system_kube-apiserver-n1_a', '0.log', cri('Error: unknown flag'));
    expect(await lastError()).toBe('unknown flag');
    await clock.advance(10 * 60_000 + 1_000);
    expect(await lastError()).toBeUndefined();
  });

  test('returns nothing without logs, and while the kubelet removes them', async () => {
    const { files, write, lastError } = createLogs();
    expect(await lastError()).toBeUndefined();
    await write('kube-system_kube-apiserver-n1_a', '0.log', cri('Error: unknown flag'));
    files.read = () => Promise.resolve(undefined);
    expect(await lastError()).toBeUndefined();
  });
});
