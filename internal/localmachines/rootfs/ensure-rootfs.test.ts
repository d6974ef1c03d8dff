import { describe, expect, test } from '@jest/globals';
import { installArgv } from './agent-layer.ts';
import { baseRootfs, buildArgv, parseDepends, recipeHash, rootfsRecipe } from './ensure-rootfs.ts';

const recipe = rootfsRecipe(['iptables', 'systemd']);

describe('the root file system', () => {
  test('has another cache name when its recipe changes', () => {
    const changed = { ...recipe, hooks: [...recipe.hooks, 'true'] };
    expect(recipeHash(recipe)).toMatch(/^[0-9a-f]{16}$/);
    expect(recipeHash(changed)).not.toBe(recipeHash(recipe));
    expect(recipeHash(rootfsRecipe([]))).not.toBe(recipeHash(recipe));
  });

  test('has no container runtime, because the bundle contains it', () => {
    for (const name of ['containerd', 'runc', 'docker.io', 'kubelet']) {
      expect(recipe.include).not.toContain(name);
    }
  });

  test("has the dependencies of the agent's package, and no package that would hide a missing dependency", () => {
    expect(recipe.include).toEqual([...baseRootfs.include, 'iptables'].sort());
    const hidden = ['conntrack', 'ethtool', 'iptables', 'iproute2', 'kmod', 'mount', 'dbus'];
    expect(baseRootfs.include.filter((name) => hidden.includes(name))).toEqual([]);
    expect(baseRootfs.hooks.filter((hook) => /sysctl|modules-load|ip_forward/.test(hook))).toEqual([]);
  });

  test("uses the host's package sources, or the default of mmdebstrap if the host has none", () => {
    const base = { recipe, target: '/t', aptOptions: ['Acquire::Retries "3";'] };
    expect(buildArgv({ ...base, sources: '/s.list' }).slice(-3)).toEqual(['bookworm', '/t', '/s.list']);
    expect(buildArgv({ ...base, sources: undefined }).slice(-2)).toEqual(['bookworm', '/t']);
    expect(buildArgv({ ...base, sources: undefined })).toContain('--aptopt=Acquire::Retries "3";');
  });
});

test('a build ends together with the program that started it', () => {
  const build = buildArgv({ recipe, target: '/t', sources: undefined, aptOptions: [] });
  const install = installArgv({ partial: '/p', rootfs: '/r', packagePath: '/a.deb' });
  for (const argv of [build, install]) {
    expect(argv.slice(0, 3)).toEqual(['setpriv', '--pdeathsig', 'KILL']);
    expect(argv).toContain('--kill-child');
  }
});

test.each([
  { text: 'libc6 (>= 2.28), systemd | elogind, dbus:any\n', want: ['libc6', 'systemd', 'dbus'] },
  { text: 'libstdc++6,\n iproute2', want: ['libstdc++6', 'iproute2'] },
  { text: '', want: [] },
])('parseDepends() of "$text" returns $want', ({ text, want }) => {
  expect(parseDepends(text)).toEqual(want);
});
