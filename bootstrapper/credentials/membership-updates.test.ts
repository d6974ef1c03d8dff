import { expect, test } from '@jest/globals';
import { currentValue, EventValue } from '../../internal/event/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import type { Membership } from '../membership/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import { createMembershipUpdates } from './membership-updates.ts';

const first = { clusterCaPem: 'CA 1', nodeCertPem: 'CERT 1' } as Membership;

async function createNode() {
  const files = new MemoryFiles();
  await files.makeDirectory(AGENT_PATHS.state);
  const state = createNodeState(files);
  const clusterMembership = new EventValue<Membership | undefined>();
  clusterMembership.set(first);
  const update = createMembershipUpdates({
    ...{ files, state, reads: { clusterMembership } },
    publish: (now) => clusterMembership.set(now),
  });
  return { files, state, clusterMembership, update };
}

test('a membership update keeps both of two changes that are made at the same time', async () => {
  const { state, clusterMembership, update, files } = await createNode();
  await Promise.all([
    update((now) => ({ ...now, clusterCaPem: 'CA 2' })),
    update((now) => ({ ...now, nodeCertPem: 'CERT 2' })),
  ]);
  const changed = { clusterCaPem: 'CA 2', nodeCertPem: 'CERT 2' };
  expect(currentValue(clusterMembership)).toEqual(changed);
  expect(await state.membership.load()).toEqual(changed);
  const ca = await files.read(`${AGENT_PATHS.credentials}/ca.crt`, 100);
  expect(Buffer.from(ca ?? []).toString('utf8')).toBe('CA 2');
});

test('a failed membership update leaves the membership unchanged, and the next update works', async () => {
  const { clusterMembership, update } = await createNode();
  const failing = update(() => {
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  expect(currentValue(clusterMembership)).toBe(first);
  expect(await update((now) => ({ ...now, clusterCaPem: 'CA 2' }))).toMatchObject({ clusterCaPem: 'CA 2' });
});
