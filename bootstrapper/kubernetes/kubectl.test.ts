import { expect, test } from '@jest/globals';
import type { Command } from '../../internal/exec/index.ts';
import { kubectl } from './kubectl.ts';

test('kubectl() keeps its cache below the state directory, which a purge removes', async () => {
  const asked: unknown[] = [];
  const commands = {
    run: async ({ argv, env = {} }: Command) => {
      asked.push({ command: argv.join(' '), env });
      return { stdout: 'x', stderr: '', exitCode: 0 };
    },
  };
  expect(await kubectl(commands, ['get', 'nodes'], new AbortController().signal)).toBe('x');
  expect(asked).toEqual([
    {
      command: '/opt/cluster/bin/kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes',
      env: { KUBECACHEDIR: '/var/lib/cluster/kubernetes/kubectl-cache' },
    },
  ]);
});
