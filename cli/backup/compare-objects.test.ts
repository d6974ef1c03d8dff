import { describe, expect, test } from '@jest/globals';
import { verifyObjects } from './compare-objects.ts';

const BACKUP = { configmaps: 3, peerserverleases: 3, pods: 7, 'services/endpoints': 4, 'services/specs': 4 };

describe('verifyObjects()', () => {
  test('compares every resource that does not change by itself', () => {
    const restored = { configmaps: 3, events: 9, pods: 1, 'services/specs': 4 };
    expect(verifyObjects('a', BACKUP, restored)).toEqual([
      { resource: 'configmaps', backup: 3, restored: 3 },
      { resource: 'services/specs', backup: 4, restored: 4 },
    ]);
  });

  test.each([
    { name: 'an object is missing', restored: { ...BACKUP, configmaps: 2 } },
    { name: 'a resource is missing', restored: { configmaps: 3 } },
    { name: 'a resource is new', restored: { ...BACKUP, widgets: 1 } },
  ])('refuses a restored cluster when $name', ({ restored }) => {
    expect(() => verifyObjects('a', BACKUP, restored)).toThrow(
      expect.objectContaining({ code: 'backup-drill-differs' }),
    );
  });

  test('refuses a backup without counts', () => {
    expect(() => verifyObjects('a', undefined, BACKUP)).toThrow(
      expect.objectContaining({ code: 'backup-drill-uncounted' }),
    );
  });
});
