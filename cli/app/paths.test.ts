import { describe, expect, test } from '@jest/globals';
import { pathsFrom } from './paths.ts';

/** The workspace for a flag and a value of CLUSTER_WORKSPACE, in the current directory /here. */
function workspaceOf(flag: string | undefined, variable: string | undefined): string {
  const env = { CLUSTER_WORKSPACE: variable };
  return pathsFrom({ env, home: '/home/me', cwd: '/here', workspace: flag, identity: undefined }).workspace;
}

describe('pathsFrom()', () => {
  test.each([
    { flag: undefined, variable: undefined, workspace: '/here' },
    { flag: undefined, variable: '', workspace: '/here' },
    { flag: undefined, variable: '/clusters/a', workspace: '/clusters/a' },
    { flag: undefined, variable: 'a', workspace: '/here/a' },
    { flag: 'b', variable: '/clusters/a', workspace: '/here/b' },
    { flag: '.', variable: '/clusters/a', workspace: '/here' },
  ])('uses workspace $workspace for --workspace $flag and CLUSTER_WORKSPACE=$variable', (each) => {
    expect(workspaceOf(each.flag, each.variable)).toBe(each.workspace);
  });
});
