import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { ClusterRestoreSchema, ClusterSpecSchema, type ClusterRestore } from '../../initproto/gen/init_pb.js';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { parseInitSpec } from './init-spec.ts';

const KEY = 'THE-KEY-THAT-NO-ERROR-SHOWS';
const sharedKeys = Object.fromEntries(Object.keys(CONTROL_PLANE_KEY_FILES).map((name) => [name, KEY]));

function specWith(restore: Partial<ClusterRestore>) {
  return create(ClusterSpecSchema, {
    ...{ clusterName: 'blue', clusterId: 'a'.repeat(32), kubernetesVersion: 'v1.37.2' },
    ...{ bundleManifest: new Uint8Array([1]), podSubnet: '198.19.0.0/17', serviceSubnet: '198.19.128.0/20' },
    ...{ kubernetesAdminCsr: new Uint8Array([1]), ownerCsr: new Uint8Array([1]) },
    clusterUnlockKey: new Uint8Array(32),
    restore: create(ClusterRestoreSchema, {
      ...{ epoch: 2n, stateSnapshotSha256: 'a'.repeat(64), kubernetesSnapshotSha256: 'b'.repeat(64) },
      ...{ sharedKeys, ...restore },
    }),
  });
}

describe('parseInitSpec() of a restored cluster', () => {
  test('returns epoch, snapshots and keys', () => {
    expect(parseInitSpec(specWith({}), 'n1').restore).toEqual({
      ...{
        epoch: 2,
        stateSnapshotSha256: 'a'.repeat(64),
        kubernetesSnapshotSha256: 'b'.repeat(64),
        sharedKeys,
      },
    });
  });

  const { 'cluster-ca.key': _missing, ...incomplete } = sharedKeys;
  test.each([
    { name: 'the epoch of a new cluster', restore: { epoch: 1n } },
    { name: 'an epoch that is no safe integer', restore: { epoch: 1n << 60n } },
    { name: 'a hash with a path in it', restore: { stateSnapshotSha256: '../'.repeat(20) } },
    { name: 'a short hash', restore: { kubernetesSnapshotSha256: 'ab' } },
    { name: 'a missing key', restore: { sharedKeys: incomplete } },
    { name: 'an empty key', restore: { sharedKeys: { ...sharedKeys, 'cluster-ca.key': '' } } },
    {
      name: 'a key of 2 MiB',
      restore: { sharedKeys: { ...sharedKeys, 'cluster-ca.key': KEY.repeat(80_000) } },
    },
    { name: 'an unknown key', restore: { sharedKeys: { ...sharedKeys, '../../etc/passwd': KEY } } },
  ])('refuses $name, and its error shows no key', ({ restore }) => {
    const parse = (): unknown => parseInitSpec(specWith(restore), 'n1');
    expect(parse).toThrow('restore.');
    expect(parse).not.toThrow(KEY);
  });
});
