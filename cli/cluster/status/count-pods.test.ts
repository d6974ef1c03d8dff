import { expect, test } from '@jest/globals';
import type { KubeNode, KubePod } from '../../../internal/kube/index.ts';
import { countPods } from './count-pods.ts';

const node = (name: string, status: string) =>
  ({
    metadata: { name },
    status: { conditions: [{ type: 'Ready', status, reason: '', message: '' }] },
  }) as KubeNode;
const pod = (name: string, nodeName: string, { phase = 'Running', ready = 'True' } = {}) =>
  ({
    metadata: { namespace: 'a', name },
    spec: { nodeName },
    status: { phase, conditions: [{ type: 'Ready', status: ready }] },
  }) as KubePod;

test('counts no pod of a removed node, and none of a node that is not ready as ready', () => {
  const nodes = [node('n1', 'True'), node('n2', 'Unknown')];
  const pods = [
    pod('runs', 'n1'),
    pod('crashed', 'n1', { ready: 'False' }),
    pod('silent', 'n2'),
    pod('ended', 'n2', { phase: 'Succeeded', ready: 'False' }),
    pod('removed', 'n3'),
    pod('pending', '', { phase: 'Pending', ready: 'False' }),
  ];
  expect(countPods(pods, nodes)).toEqual({ total: 5, notReady: ['a/crashed', 'a/silent', 'a/pending'] });
});
