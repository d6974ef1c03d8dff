import { describe, expect, test } from '@jest/globals';
import { parseProvisioning } from '../../config/index.ts';
import { provisioningFor } from './provisioning.ts';

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
