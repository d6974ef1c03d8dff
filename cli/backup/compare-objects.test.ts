import { describe, expect, test } from '@jest/globals';
import { verifyObjects } from './compare-objects.ts';

const BACKUP = {
  '/registry/configmaps/kube-system/kubeadm-config': '0',
  '/registry/configmaps/kube-system/kubelet-config': '0',
  '/registry/configmaps/default/a': '1',
  '/registry/configmaps/default/b': '2',
  '/registry/pods/default/p': '3',
  '/registry/services/endpoints/default/s': '4',
  '/registry/services/specs/default/s': '5',
};
const listOf = (objects: Readonly<Record<string, string>>) => new Map(Object.entries(objects));

describe('verifyObjects()', () => {
  test('compares every object that does not change by itself', () => {
    const restored = {
      ...BACKUP,
      '/registry/configmaps/kube-system/kubeadm-config': '8',
      '/registry/configmaps/kube-system/kubelet-config': '8',
      '/registry/pods/default/p': '9',
      '/registry/events/default/e': '7',
    };
    expect(verifyObjects('a', listOf(BACKUP), listOf(restored))).toEqual([
      { resource: 'configmaps', backup: 2, restored: 2 },
      { resource: 'services/specs', backup: 1, restored: 1 },
    ]);
  });

  test('does not compare an object that changed while a backup was taken', () => {
    const changed = { ...BACKUP, '/registry/configmaps/default/b': '' };
    expect(verifyObjects('a', listOf(changed), listOf(BACKUP))).toHaveLength(2);
    expect(verifyObjects('a', listOf(BACKUP), listOf(changed))).toHaveLength(2);
  });

  test.each([
    {
      name: 'one object has another content',
      change: { '/registry/configmaps/default/b': '3' },
      difference: 'changed',
    },
    {
      name: 'an object is missing',
      change: { '/registry/configmaps/default/b': undefined },
      difference: 'missing',
    },
    { name: 'an object is new', change: { '/registry/widgets/b': '3' }, difference: 'new' },
  ])('refuses a restored cluster when $name', ({ change, difference }) => {
    const restored = Object.entries({ ...BACKUP, ...change }).filter(([, digest]) => digest !== undefined);
    const [key] = Object.keys(change);
    expect(() => verifyObjects('a', listOf(BACKUP), new Map(restored as [string, string][]))).toThrow(
      expect.objectContaining({
        code: 'backup-drill-differs',
        details: { different: [{ key, difference }] },
      }),
    );
  });

  test('refuses a backup without a complete list of objects', () => {
    expect(() => verifyObjects('a', undefined, listOf(BACKUP))).toThrow(
      expect.objectContaining({ code: 'backup-drill-uncounted' }),
    );
  });
});
