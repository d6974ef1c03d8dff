import { expect, test } from '@jest/globals';
import { goProgram } from '../../testing/index.ts';
import { parseGoBuildInfo } from './go-build-info.ts';

const MODULES = [
  'path\tk8s.io/kubernetes/cmd/kubelet',
  'mod\tk8s.io/kubernetes\tv1.37.2\th1:a=',
  'dep\tgithub.com/old/name\tv1.0.0\th1:b=',
  '=>\tgithub.com/new/name\tv1.1.0\th1:c=',
  'dep\tk8s.io/api\tv0.37.2',
  '=>\t./staging/src/k8s.io/api\t(devel)',
  'build\t-trimpath=true',
];

test('parseGoBuildInfo() returns the version of Go and the modules, and names a replaced module by its replacement', () => {
  expect(parseGoBuildInfo(goProgram('go1.26.10', MODULES))).toEqual({
    goVersion: 'go1.26.10',
    modules: [
      { path: 'k8s.io/kubernetes', version: 'v1.37.2' },
      { path: 'github.com/new/name', version: 'v1.1.0' },
      { path: 'k8s.io/api', version: 'v0.37.2' },
    ],
  });
});

test('parseGoBuildInfo() skips magic bytes that are not followed by build information', () => {
  const constant = Buffer.alloc(64);
  constant.write('\xff Go buildinf:', 16, 'latin1');
  const program = Buffer.concat([constant, goProgram('go1.26.10', MODULES)]);
  expect(parseGoBuildInfo(program)?.modules).toHaveLength(3);
});

test.each([
  ['a program without build information', Buffer.from('\x7fELF and no more')],
  ['a program that ends in its header', goProgram('go1.26.10', MODULES).subarray(0, 60)],
  [
    'a program with a length field that exceeds the program',
    goProgram('go1.26.10', MODULES).subarray(0, -40),
  ],
])('parseGoBuildInfo() finds nothing in %s', (_, program) => {
  expect(parseGoBuildInfo(program)).toBeUndefined();
});
