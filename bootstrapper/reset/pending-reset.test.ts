import { expect, test } from '@jest/globals';
import { createMemoryLogger, FakeCommands, FakeUnits, MemoryFiles } from '../../internal/testing/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';
import { runPendingReset } from './pending-reset.ts';

const { signal } = new AbortController();
const ROOT = '22 1 8:1 / / rw - ext4 /dev/sda1 rw\n';

test('runPendingReset() stops the etcd of a proof, and unmounts its memory', async () => {
  const point = `${AGENT_PATHS.backupProof}/memory`;
  const files = new MemoryFiles();
  for (const path of ['/proc/self', '/var/lib/cluster/reset', point]) await files.makeDirectory(path);
  await files.writeAtomic('/proc/self/mountinfo', `${ROOT}40 22 0:40 / ${point} rw - tmpfs tmpfs rw\n`);
  await files.writeAtomic(AGENT_PATHS.resetOrder, '{}');
  const units = new FakeUnits();
  for (const unit of ['cluster-etcd-proof.service', 'cluster-etcd-proof-restore.service'])
    await units.start(unit);
  const commands = new FakeCommands((argv) =>
    argv[0] === 'realpath' ? argv.slice(3).join('\n') : undefined,
  );
  const run = commands.run.bind(commands);
  commands.run = async (command) => {
    const result = await run(command);
    if (command.argv[0] === 'umount') await files.writeAtomic('/proc/self/mountinfo', ROOT);
    return result;
  };
  const { log } = createMemoryLogger();
  const machine = { bootId: () => Promise.resolve('boot-1') };
  const provisioning = { tpm: { kind: 'none' as const } };
  const options = { provisioning, stateDisk: undefined, signal };
  expect(await runPendingReset({ files, units, commands, log, machine }, options)).toBe('fresh');
  expect([...units.active]).toEqual([]);
  expect(commands.runs).toContainEqual(['umount', '--lazy', point]);
  expect(await files.stat(AGENT_PATHS.backupProof)).toBeUndefined();
});
