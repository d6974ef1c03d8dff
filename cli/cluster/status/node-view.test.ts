import { create } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { NodeSchema } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { nodeViewsFrom } from './node-view.ts';

test('nodeViewsFrom() sorts nodes by name, numbers as numbers', () => {
  const nodes = ['n10', 'db-1', 'n2', 'n1'].map((name) =>
    create(NodeSchema, { name, nodeId: `node-${name}` }),
  );
  expect(nodeViewsFrom(nodes).map(({ name }) => name)).toEqual(['db-1', 'n1', 'n2', 'n10']);
});
