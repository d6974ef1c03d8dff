import { expect, test } from '@jest/globals';
import { DEFAULT_KUBERNETES_VERSION, KUBERNETES_VERSIONS } from '../../internal/bundle/index.ts';
import { parseOptions } from './options.ts';

test('parseOptions() runs everything on five machines with the newest release by default', () => {
  expect(parseOptions([])).toMatchObject({
    kubernetesVersion: DEFAULT_KUBERNETES_VERSION,
    selection: { focus: undefined, skip: undefined, shard: undefined, quick: false },
    controlPlanes: 3,
    workers: 2,
  });
});

test('parseOptions() finds the pinned patch of a minor release', () => {
  const [oldest = ''] = KUBERNETES_VERSIONS;
  const minor = oldest.slice(1).split('.', 2).join('.');
  expect(parseOptions(['--release', minor])).toMatchObject({ kubernetesVersion: oldest });
});

test.each([
  ['an unknown release', ['--release', '1.2']],
  ['a shard beyond the last', ['--shard', '3/2']],
  ['a focus that is not a regular expression', ['--focus', '(']],
  ['zero processes', ['--procs', '0']],
  ['an unknown option', ['--fokus', 'x']],
  ['a positional argument', ['x']],
])('parseOptions() refuses %s', (_, args) => {
  // Node's parser throws errors of another JavaScript realm, so that `toThrow(TypeError)` would not match.
  expect(() => parseOptions(args)).toThrow(expect.objectContaining({ name: 'TypeError' }));
});
