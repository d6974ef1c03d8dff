import { execFileSync } from 'node:child_process';
import { expect, test } from '@jest/globals';
import { lostFlags, lostKeys, pathsIn } from './lost-settings.ts';

const LINE = 'root 1 kube-apiserver --profiling=false --tls-min-version=VersionTLS12 --v=2 --feature';

test('lostFlags() has each flag of the command line', () =>
  expect(lostFlags('kube-apiserver', LINE).map(({ name }) => name)).toEqual([
    '--profiling of kube-apiserver',
    '--tls-min-version of kube-apiserver',
    '--v of kube-apiserver',
    '--feature of kube-apiserver',
  ]));

test.each([
  { flag: '--profiling', left: 'root 1 kube-apiserver --tls-min-version=VersionTLS12 --v=2 --feature' },
  {
    flag: '--feature',
    left: 'root 1 kube-apiserver --profiling=false --tls-min-version=VersionTLS12 --v=2 ',
  },
])('the filter of $flag removes it, and only from the line of its program', ({ flag, left }) => {
  const { script = '' } =
    lostFlags('kube-apiserver', LINE).find(({ name }) => name.startsWith(`${flag} `)) ?? {};
  const sed = /<<'EOF'\n(.*)\nEOF/.exec(script)?.[1] ?? '';
  const other = 'root 2 other --profiling=false --feature';
  expect(execFileSync('sed', ['-E', sed], { input: `${LINE}\n${other}\n` }).toString()).toBe(
    `${left}\n${other}\n`,
  );
});

test('lostKeys() removes each key of each level', () => {
  const losses = lostKeys('/x.yaml', { a: { b: { c: { d: 1 } } }, list: [{ e: 1 }] });
  expect(losses.map(({ name }) => name.split(' ')[0])).toEqual(['a', 'a.b', 'a.b.c', 'list']);
  expect(losses[2]?.script).toContain('{"list":[{"e":1}],"a":{"b":{}}}');
});

test.each([
  {
    audit:
      "/bin/sh -c 'if test -e /etc/kubernetes/admin.conf; then stat -c %U:%G /etc/kubernetes/admin.conf; fi'",
    paths: ['/etc/kubernetes/admin.conf'],
  },
  { audit: "find /etc/kubernetes/pki/ -name '*.crt' | xargs stat", paths: ['/etc/kubernetes/pki'] },
  { audit: '/bin/ps -ef | grep kube-apiserver', paths: [] },
])('pathsIn() finds the paths of $audit', ({ audit, paths }) => expect(pathsIn(audit)).toEqual(paths));
