import { describe, expect, test } from '@jest/globals';
import { parseProvisioning } from '../../config/index.ts';
import { provisioningFor, virtualProvisioningFor } from './provisioning.ts';

const ownerKeys: [string] = [Buffer.alloc(32, 1).toString('base64')];
const plain = {
  nodeName: 'n1',
  address: '198.18.7.11',
  ownerKeys,
  joinEndpoints: [],
  seeded: false,
  restrictOomScoreAdj: false,
  cgroupV1: false,
};

describe('provisioningFor()', () => {
  test('returns a provisioning file that the agent accepts, on a host without special limits', () => {
    const parsed = parseProvisioning(JSON.stringify(provisioningFor(plain)));
    expect(parsed).toMatchObject({
      platform: 'local',
      ownerKeys,
      tpm: { kind: 'socket', path: '/run/cluster-tpm/tpm.sock' },
      seedStores: [],
      nodeName: 'n1',
      address: '198.18.7.11',
      containerRuntime: {},
      kubelet: {},
    });
  });

  test('contains the limits of the host and the paths that the agent may read', () => {
    const facts = {
      ...plain,
      seeded: true,
      joinEndpoints: ['198.18.7.11:9090'],
      restrictOomScoreAdj: true,
      cgroupV1: true,
    };
    expect(parseProvisioning(JSON.stringify(provisioningFor(facts)))).toMatchObject({
      seedStores: ['/var/lib/cluster-seed'],
      joinEndpoints: ['198.18.7.11:9090'],
      containerRuntime: { restrictOomScoreAdj: true },
      kubelet: { failCgroupV1: false },
    });
  });
});

describe('virtualProvisioningFor()', () => {
  const recovery = {
    approvalKey: 'A0t1mGv0c2cF2bQqj2v0wz0R8X4dTfX2bF4l3iCq7o0Q',
    recoveryRecipients: ['age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0'] as [string],
  };

  test('returns a provisioning file of a real machine with an encrypted state disk, sealed to what the image measures', () => {
    const { approvalKey: _, ...others } = recovery;
    const facts = { nodeName: 'n1', address: '198.18.7.11', ownerKeys, joinEndpoints: ['198.18.7.12:9090'] };
    const file = virtualProvisioningFor({ ...facts, recovery: others as typeof recovery });
    expect(parseProvisioning(JSON.stringify(file))).toMatchObject({
      platform: 'metal',
      ownerKeys,
      tpm: { kind: 'device', path: '/dev/tpmrm0' },
      stateDisk: {
        device: '/dev/disk/by-partlabel/cluster-state',
        pcrs: [4, 7, 9, 11, 12],
        integrity: false,
        recoveryRecipients: recovery.recoveryRecipients,
      },
      nodeName: 'n1',
      address: '198.18.7.11',
      joinEndpoints: ['198.18.7.12:9090'],
      seedStores: [],
    });
  });
});
