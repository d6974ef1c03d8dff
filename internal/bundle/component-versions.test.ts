import { describe, expect, test } from '@jest/globals';
import {
  DEFAULT_KUBERNETES_VERSION,
  imageReferences,
  KUBERNETES_VERSIONS,
  supportOf,
  versionsFor,
} from './component-versions.ts';

describe('supportOf()', () => {
  test('knows the end of each version of Kubernetes that a bundle can have, later for later ones', () => {
    const ends = KUBERNETES_VERSIONS.map((version) => supportOf(version)?.endMs ?? 0);
    expect(ends.every((endMs) => endMs > Date.UTC(2027, 0, 1))).toBe(true);
    expect(ends).toEqual(ends.toSorted((a, b) => a - b));
  });

  test.each(['', 'v1.99.0', '1.37.2', 'v1.37'])('does not know the end of %j', (version) => {
    expect(supportOf(version)).toBeUndefined();
  });
});

describe('versionsFor()', () => {
  test('versionsFor() knows three consecutive minor versions of Kubernetes, and the newest is the default', () => {
    const minors = KUBERNETES_VERSIONS.map((version) => Number(version.split('.')[1]));
    const [oldest = 0] = minors;
    expect(minors).toEqual([oldest, oldest + 1, oldest + 2]);
    expect(KUBERNETES_VERSIONS.at(-1)).toBe(DEFAULT_KUBERNETES_VERSION);
  });

  test.each(['v1.35.3', '1.35.4', 'latest', ''])(
    'versionsFor() refuses %j with an error that lists the supported versions',
    (version) => {
      expect(() => versionsFor(version)).toThrow(
        expect.objectContaining({
          code: 'bundle-version-unknown',
          message: expect.stringContaining(DEFAULT_KUBERNETES_VERSION),
        }),
      );
    },
  );
});

test.each([
  { version: 'v1.35.4', etcd: '3.6.6-0', coredns: 'v1.13.1', pause: '3.10.1' },
  { version: 'v1.36.3', etcd: '3.6.8-0', coredns: 'v1.14.2', pause: '3.10.2' },
  { version: 'v1.37.2', etcd: '3.7.0-0', coredns: 'v1.14.6', pause: '3.10.2' },
])(
  'imageReferences() returns the references that the kubeadm of $version expects',
  ({ version, etcd, coredns, pause }) => {
    expect(imageReferences(versionsFor(version))).toMatchObject({
      'kube-proxy': `registry.k8s.io/kube-proxy:${version}`,
      'etcd-image': `registry.k8s.io/etcd:${etcd}`,
      coredns: `registry.k8s.io/coredns/coredns:${coredns}`,
      pause: `registry.k8s.io/pause:${pause}`,
    });
  },
);
