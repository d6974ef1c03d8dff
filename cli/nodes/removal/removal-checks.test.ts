import { expect, test } from '@jest/globals';
import { NodeHealth } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { controlPlanesFrom } from './removal-checks.ts';

const entry = (name: string) => ({ nodeId: `id-${name}`, name, curatorEndpoint: `${name}:9091` });

test('controlPlanesFrom() leaves out lost nodes and keeps those that have just joined', () => {
  const directory = [entry('a'), entry('b'), entry('c'), { ...entry('d'), curatorEndpoint: '' }];
  const nodes = [
    { nodeId: 'id-a', health: NodeHealth.HEALTHY },
    { nodeId: 'id-b', health: NodeHealth.TIMEOUT },
    { nodeId: 'id-c', health: NodeHealth.UNKNOWN },
    { nodeId: 'id-d', health: NodeHealth.TIMEOUT },
  ];
  expect(controlPlanesFrom(directory, nodes)).toEqual({
    reachable: ['a:9091', 'c:9091'],
    unreachable: ['b'],
  });
});
