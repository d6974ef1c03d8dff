import { describe, expect, test } from '@jest/globals';
import { verifyCharts } from './compare-charts.ts';

const BACKUP = new Map(
  [
    '/registry/secrets/kube-flannel/sh.helm.release.v1.flannel.v1',
    '/registry/secrets/web/sh.helm.release.v1.shop.v1',
    '/registry/secrets/web/sh.helm.release.v1.shop.v2',
    '/registry/secrets/web/password',
  ].map((key) => [key, 'digest']),
);
const FLANNEL = { namespace: 'kube-flannel', name: 'flannel', revision: 1, status: 'deployed' };
const SHOP = { namespace: 'web', name: 'shop', revision: 2, status: 'deployed' };

describe('verifyCharts()', () => {
  test('accepts the same releases in the same revisions', () => {
    expect(verifyCharts('a', BACKUP, [SHOP, FLANNEL])).toEqual([SHOP, FLANNEL]);
  });

  test.each([
    { name: 'a release is missing', restored: [FLANNEL] },
    { name: 'a release has an older revision', restored: [FLANNEL, { ...SHOP, revision: 1 }] },
    { name: 'a release is in another namespace', restored: [FLANNEL, { ...SHOP, namespace: 'shop' }] },
    { name: 'a release is new', restored: [FLANNEL, SHOP, { ...SHOP, name: 'other' }] },
  ])('refuses a restored cluster when $name', ({ restored }) => {
    expect(() => verifyCharts('a', BACKUP, restored)).toThrow(
      expect.objectContaining({ code: 'backup-drill-differs' }),
    );
  });
});
