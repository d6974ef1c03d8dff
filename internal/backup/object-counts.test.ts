import { expect, test } from '@jest/globals';
import { ObjectCounts } from './object-counts.ts';

test('ObjectCounts counts keys by resource, without the names of objects', () => {
  const counts = new ObjectCounts();
  counts.add(['/registry/pods/default/a', '/registry/pods/secret-name/b', '/registry/namespaces/default']);
  counts.add(['/registry/services/specs/default/a', '/registry/services/endpoints/default/a']);
  counts.add(['/registry/example.org/things/default/a', '/registry/example.org/things/default/b']);
  counts.add(['/cluster/nodes/n1', '/cluster/cluster', 'odd']);
  expect(counts.byResource).toEqual({
    ...{ '': 1, cluster: 1, 'example.org/things': 2, namespaces: 1, nodes: 1, pods: 2 },
    ...{ 'services/endpoints': 1, 'services/specs': 1 },
  });
});

test('ObjectCounts limits the number of resources that it counts separately', () => {
  const counts = new ObjectCounts();
  counts.add(Array.from({ length: 3_000 }, (_, index) => `/registry/r${index}/a`));
  expect(Object.keys(counts.byResource)).toHaveLength(2_001);
  expect(counts.byResource['others']).toBe(1_000);
});
