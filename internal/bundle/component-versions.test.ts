import { describe, expect, test } from '@jest/globals';
import {
  DEFAULT_KUBERNETES_VERSION,
  imageReferences,
  KUBERNETES_VERSIONS,
  versionsFor,
} from './component-versions.ts';

describe('versionsFor()', () => {
  test('versionsFor() knows the default release and the release before it', () => {
    expect(DEFAULT_KUBERNETES_VERSION).toBe('v1.35.4');
    expect(KUBERNETES_VERSIONS).toEqual(['v1.34.4', 'v1.35.4']);
  });

  test.each(['v1.35.3', '1.35.4', 'latest', ''])(
    'versionsFor() refuses %j with an error that lists the supported versions',
    (version) => {
      expect(() => versionsFor(version)).toThrow(
        expect.objectContaining({
          code: 'bundle-version-unknown',
          message: expect.stringContaining('v1.35.4'),
        }),
      );
    },
  );
});

test.each([
  { version: 'v1.35.4', etcd: '3.6.6-0', coredns: 'v1.13.1' },
  { version: 'v1.34.4', etcd: '3.6.5-0', coredns: 'v1.12.1' },
])('the images of $version have the references that its kubeadm expects', ({ version, etcd, coredns }) => {
  expect(imageReferences(versionsFor(version))).toMatchObject({
    'kube-proxy': `registry.k8s.io/kube-proxy:${version}`,
    'etcd-image': `registry.k8s.io/etcd:${etcd}`,
    coredns: `registry.k8s.io/coredns/coredns:${coredns}`,
    pause: 'registry.k8s.io/pause:3.10.1',
  });
});
