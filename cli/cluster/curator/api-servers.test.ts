import { describe, expect, test } from '@jest/globals';
import { KubeError, type KubeErrorCode } from '../../../internal/kube/index.ts';
import { Secret } from '../../../internal/secret/index.ts';
import { reachableAccess, apiServerUrlOf } from './api-servers.ts';

const access = { server: 'https://n1:6443', caPem: '', certPem: '', keyPem: new Secret('') };
const NONE: Record<string, KubeErrorCode> = {};

describe('reachableAccess()', () => {
  test.each([
    { name: 'the server of the kubeconfig if it responds', fails: NONE, want: 'https://n1:6443', asked: 1 },
    {
      name: 'another control plane if the server of the kubeconfig does not respond',
      fails: { n1: 'kube-unreachable' as const, n2: 'kube-failed' as const },
      want: 'https://n3:6443',
      asked: 3,
    },
    {
      name: 'the server of the kubeconfig if it refuses the request',
      fails: { n1: 'kube-refused' as const },
      want: 'https://n1:6443',
      asked: 1,
    },
    {
      name: 'the server of the kubeconfig if no server responds',
      fails: {
        n1: 'kube-unreachable' as const,
        n2: 'kube-unreachable' as const,
        n3: 'kube-unreachable' as const,
      },
      want: 'https://n1:6443',
      asked: 3,
    },
  ])('reachableAccess() returns $name', async ({ fails, want, asked }) => {
    const probed: string[] = [];
    const chosen = await reachableAccess(access, {
      list: () => Promise.resolve(['n1', 'n2', 'n3'].map((host) => apiServerUrlOf(`${host}:9091`))),
      probe: async ({ server }) => {
        probed.push(server);
        const code = Object.entries(fails).find(([host]) => server.includes(host))?.[1];
        if (code !== undefined) throw new KubeError(code, 'no');
      },
    });
    expect([chosen.server, probed.length]).toEqual([want, asked]);
  });
});

test('apiServerUrlOf() keeps the brackets of IPv6', () => {
  expect(apiServerUrlOf('[fd00::1]:9091')).toBe('https://[fd00::1]:6443');
});
