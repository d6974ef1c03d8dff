import { expect, test } from '@jest/globals';
import { FakeCommands, FakeUnits, MemoryFiles } from '../../../internal/testing/index.ts';
import { consensusLayout } from '../consensus-layout.ts';
import { RECOVERY_ETCD_UNIT } from './data-copy.ts';
import { PROOF_ETCD_UNIT, PROOF_RESTORE_UNIT, removeRestoredSnapshots } from './restored-etcd.ts';

const { signal } = new AbortController();

test('removeRestoredSnapshots() stops both units of a backup’s proof, but not the etcd of a running quorum recovery', async () => {
  const units = new FakeUnits();
  await units.start(RECOVERY_ETCD_UNIT);
  await units.start(PROOF_ETCD_UNIT);
  await units.start(PROOF_RESTORE_UNIT);
  await removeRestoredSnapshots(
    { files: new MemoryFiles(), units, commands: new FakeCommands() },
    { layouts: [consensusLayout('/state', 'state')], memoryDirectory: '/run/proof' },
    signal,
  );
  expect([...units.active]).toEqual([RECOVERY_ETCD_UNIT]);
});

test('removeRestoredSnapshots() unmounts the memory of a proof that was killed', async () => {
  const files = new MemoryFiles();
  const point = '/run/proof/memory';
  await files.makeDirectory('/proc/self');
  const mounts = ['29 1 8:1 / / rw - ext4 /dev/sda1 rw', `30 29 0:50 / ${point} rw - tmpfs tmpfs rw`];
  const write = () => files.writeAtomic('/proc/self/mountinfo', `${mounts.join('\n')}\n`);
  await write();
  await files.makeDirectory(`${point}/snapshots`);
  const commands = {
    run: async () => {
      mounts.pop();
      await write();
      return { exitCode: 0, stdout: '', stderr: '' };
    },
  };
  const ports = { files, units: new FakeUnits(), commands };
  await removeRestoredSnapshots(ports, { layouts: [], memoryDirectory: '/run/proof' }, signal);
  expect(mounts).toHaveLength(1);
  expect(await files.stat('/run/proof')).toBeUndefined();
});
