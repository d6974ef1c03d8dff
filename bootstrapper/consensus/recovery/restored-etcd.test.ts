import { expect, test } from '@jest/globals';
import { FakeUnits, MemoryFiles } from '../../../internal/testing/index.ts';
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
    { files: new MemoryFiles(), units },
    [consensusLayout('/state', 'state')],
    signal,
  );
  expect([...units.active]).toEqual([RECOVERY_ETCD_UNIT]);
});
