import { describe, expect, test } from '@jest/globals';
import { installArgv } from './layer.ts';
import { buildArgv, recipeHash, rootfsRecipe } from './rootfs.ts';

describe('the root file system', () => {
  test('has another name when its recipe changes', () => {
    const changed = {
      ...rootfsRecipe,
      hooks: [...rootfsRecipe.hooks, 'true'],
    } as unknown as typeof rootfsRecipe;
    expect(recipeHash(rootfsRecipe)).toMatch(/^[0-9a-f]{16}$/);
    expect(recipeHash(changed)).not.toBe(recipeHash(rootfsRecipe));
  });

  test('brings no container runtime: those come from the bundle', () => {
    for (const name of ['containerd', 'runc', 'docker.io', 'kubelet']) {
      expect(rootfsRecipe.include).not.toContain(name);
    }
  });

  test('comes from the host’s sources, or from the tool’s own default where it has none', () => {
    const base = { recipe: rootfsRecipe, target: '/t', aptOptions: ['Acquire::Retries "3";'] };
    expect(buildArgv({ ...base, sources: '/s.list' }).slice(-3)).toEqual(['bookworm', '/t', '/s.list']);
    expect(buildArgv({ ...base, sources: undefined }).slice(-2)).toEqual(['bookworm', '/t']);
    expect(buildArgv({ ...base, sources: undefined })).toContain('--aptopt=Acquire::Retries "3";');
  });
});

test('builds die with the program that started them', () => {
  const build = buildArgv({ recipe: rootfsRecipe, target: '/t', sources: undefined, aptOptions: [] });
  const install = installArgv({ partial: '/p', rootfs: '/r', packagePath: '/a.deb' });
  for (const argv of [build, install]) {
    expect(argv.slice(0, 3)).toEqual(['setpriv', '--pdeathsig', 'KILL']);
    expect(argv).toContain('--kill-child');
  }
});
