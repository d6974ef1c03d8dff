import { describe, expect, test } from '@jest/globals';
import { lastErrorLine } from './last-error-line.ts';

const KLOG = '1128 09:53:05.238785   10803 run.go:72]';

describe('lastErrorLine()', () => {
  test.each([
    {
      name: 'the error with which a program of Kubernetes ends',
      lines: [
        `I${KLOG} "Starting"`,
        `E${KLOG} "command failed" err="failed to parse kubelet flag: unknown flag: --network-plugin"`,
        'kubelet.service: Main process exited, code=exited, status=1/FAILURE',
        "kubelet.service: Failed with result 'exit-code'.",
      ],
      want: 'failed to parse kubelet flag: unknown flag: --network-plugin',
    },
    {
      name: 'a structured error and what it is about, with its escapes resolved',
      lines: [
        `E${KLOG} "Failed to listen and serve" err="listen tcp \\"x\\": bind: address already in use" a="b"`,
      ],
      want: 'Failed to listen and serve: listen tcp "x": bind: address already in use',
    },
    { name: 'an unstructured error', lines: [`F${KLOG} cannot go on`], want: 'cannot go on' },
    {
      name: 'a wrong flag after the usage text',
      lines: [
        'Usage:',
        '  --cluster-signing-legacy-unknown-cert-file string',
        'Error: unknown flag: --pod-x',
        '',
      ],
      want: 'unknown flag: --pod-x',
    },
    {
      name: 'a fatal entry of etcd',
      lines: [
        '{"level":"fatal","ts":"2026-11-28T09:53:05Z","msg":"discovery failed","error":"bad certificate"}',
        '{"level":"warn","ts":"2026-11-28T09:53:05Z","msg":"closing"}',
      ],
      want: 'discovery failed: bad certificate',
    },
    {
      name: 'a panic of Go, not its stack',
      lines: [
        'panic: freepages: failed to get all reachable pages',
        '',
        'goroutine 1 [running]:',
        'main.main()',
      ],
      want: 'panic: freepages: failed to get all reachable pages',
    },
    {
      name: 'an error of containerd',
      lines: [
        'time="2026-11-28T09:53:05Z" level=error msg="cannot unmarshal" column=2 error="toml: no key" row=1',
      ],
      want: 'cannot unmarshal: toml: no key',
    },
    {
      name: 'that systemd cannot run the program',
      lines: [
        'kubelet.service: Failed to locate executable /opt/cluster/bin/kubelet: No such file or directory',
        "kubelet.service: Failed with result 'exit-code'.",
      ],
      want: 'Failed to locate executable /opt/cluster/bin/kubelet: No such file or directory',
    },
    {
      name: 'the newest of several errors',
      lines: [`E${KLOG} "old"`, `E${KLOG} "new"`, `I${KLOG} "fine"`],
      want: 'new',
    },
    {
      name: 'no error in a log without one',
      lines: [`I${KLOG} "fine"`, '{"level":"info","msg":"x"}', '{'],
      want: undefined,
    },
    { name: 'no error in an empty log', lines: [], want: undefined },
  ])('finds $name', ({ lines, want }) => {
    expect(lastErrorLine(lines)).toBe(want);
  });

  test('returns one line of at most 300 characters that controls no terminal', () => {
    const line = lastErrorLine([`Error: \u001b[31mred ${'x '.repeat(500)}`]) ?? '';
    expect(line).toHaveLength(300);
    expect(line).toMatch(/^\?\[31mred x/);
  });

  test('leaves out what may be a key or a token, and keeps paths', () => {
    const key = 'q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=';
    const path = '/etc/kubernetes/encryption/With-A-Long-Name-2026/config.json';
    expect(lastErrorLine([`Error: parsing ${path}: bad key "${key}"`])).toBe(`parsing ${path}: bad key "…"`);
  });
});
