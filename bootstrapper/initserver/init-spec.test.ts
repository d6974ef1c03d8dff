import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { ClusterRestoreSchema, ClusterSpecSchema, KnownMachineSchema } from '../../initproto/gen/init_pb.js';
import { CONTROL_PLANE_KEY_FILES } from '../kubernetes/index.ts';
import { parseInitSpec } from './init-spec.ts';

const KEY = 'THE-KEY-THAT-NO-ERROR-SHOWS';
const sharedKeys = Object.fromEntries(Object.keys(CONTROL_PLANE_KEY_FILES).map((name) => [name, KEY]));

const machine = { identity: `tpm-ek:${'0a'.repeat(32)}`, nodeId: `node-${'1'.repeat(32)}`, name: 'n5' };

function specWith(restore: MessageInitShape<typeof ClusterRestoreSchema>) {
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

  test('returns the machines that the workspace knows', () => {
    const knownMachines = [create(KnownMachineSchema, machine)];
    expect(parseInitSpec(specWith({ knownMachines }), 'n1').restore?.knownMachines).toEqual([machine]);
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
    {
      name: 'a known machine without an identity',
      restore: { knownMachines: [{ ...machine, identity: '' }] },
    },
    {
      name: 'a known machine whose identity is a path',
      restore: { knownMachines: [{ ...machine, identity: '../tpm-ek:0a' }] },
    },
    {
      name: 'a known machine with another node ID',
      restore: { knownMachines: [{ ...machine, nodeId: 'n1' }] },
    },
    {
      name: 'a known machine with a name of two lines',
      restore: { knownMachines: [{ ...machine, name: 'n1\nn2' }] },
    },
    {
      name: 'too many known machines',
      restore: { knownMachines: Array.from({ length: 4_097 }, () => machine) },
    },
    { name: 'a kept worker without a node ID', restore: { keptWorkers: [{ nodeId: '', name: 'w1' }] } },
    {
      name: 'a kept worker with a path as its name',
      restore: { keptWorkers: [{ nodeId: machine.nodeId, name: '../w1' }] },
    },
    {
      name: 'too many kept workers',
      restore: { keptWorkers: Array.from({ length: 4_097 }, () => ({ nodeId: machine.nodeId, name: 'w1' })) },
    },
    { name: 'an unknown key', restore: { sharedKeys: { ...sharedKeys, '../../etc/passwd': KEY } } },
  ])('refuses $name, and its error shows no key', ({ restore }) => {
    const parse = (): unknown => parseInitSpec(specWith(restore), 'n1');
    expect(parse).toThrow('restore.');
    expect(parse).not.toThrow(KEY);
  });
});

describe('parseInitSpec() of networks', () => {
  const parse = (podSubnet: string, serviceSubnet: string) => () =>
    parseInitSpec({ ...specWith({}), podSubnet, serviceSubnet }, 'n1');

  test('accepts one network, or one of each IP family', () => {
    const both = ['198.19.0.0/17,2001:2:0:8000::/56', '198.19.128.0/20,2001:2:0:9000::/108'] as const;
    expect(parse(...both)()).toMatchObject({ podSubnet: both[0], serviceSubnet: both[1] });
    expect(parse('198.19.0.0/17', '198.19.128.0/20')).not.toThrow();
  });

  test.each([
    {
      name: 'services of other IP families than pods',
      pods: '10.244.0.0/16,fd00::/56',
      services: '10.96.0.0/12',
    },
    { name: 'another order', pods: '10.244.0.0/16,fd00::/56', services: 'fd01::/108,10.96.0.0/12' },
    {
      name: 'two networks of one family',
      pods: '10.0.0.0/16,10.1.0.0/16',
      services: '10.96.0.0/12,10.97.0.0/16',
    },
    { name: 'a text that is no network', pods: '10.244.0.0/16,', services: '10.96.0.0/12' },
    { name: 'a network of single addresses', pods: 'fd00::/128', services: 'fd01::/108' },
  ])('refuses $name', ({ pods, services }) => {
    expect(parse(pods, services)).toThrow(expect.objectContaining({ code: 'initserver-spec-invalid' }));
  });
});
