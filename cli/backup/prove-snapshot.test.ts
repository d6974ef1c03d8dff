import { expect, test } from '@jest/globals';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { proveSnapshot } from './prove-snapshot.ts';

const { signal } = new AbortController();
const commands = new ExecaRunner({ path: '/usr/bin:/bin' });

/** Proves a snapshot with this shell script in place of etcdutl. */
function proveWith(script: string): Promise<unknown> {
  const shell = {
    run: (command: Parameters<typeof commands.run>[0]) =>
      commands.run({ ...command, argv: ['sh', '-c', script] }),
  };
  return proveSnapshot(
    { commands: shell, files: new MemoryFiles() },
    {
      ...{ etcdutl: '/etcdutl', snapshot: '/snapshot', directory: '/work', name: 'state', signal },
      facts: { revision: '7' },
    },
  );
}

test('proveSnapshot() says nothing about a backup when a signal has ended etcdutl, so that the command can be repeated', async () => {
  await expect(proveWith('kill -9 $$')).rejects.toMatchObject({ code: 'exec-failed', retryable: true });
  await expect(proveWith('exit 1')).rejects.toMatchObject({ code: 'backup-unproved' });
});
