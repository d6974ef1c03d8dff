import { describe, expect, test } from '@jest/globals';
import { dirname } from 'node:path';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import {
  chooseWorkspace,
  runCompletionNames,
  runContextAdd,
  runContextList,
  runContextRemove,
  runContextUse,
  type NameKind,
} from './index.ts';

/** A user with the workspaces /prod (an owner's) and /ann (an operator's), and the local cluster demo with machine n1. */
async function createUser() {
  const files = new MemoryFiles();
  const put = async (path: string, text = '{}'): Promise<void> => {
    await files.makeDirectory(dirname(path));
    await files.writeAtomic(path, text);
  };
  for (const path of ['/prod/cluster.yaml', '/ann/identity.json', '/data/mini/demo/workspace/cluster.yaml'])
    await put(path);
  await put('/data/mini/demo/nodes/n1/state.json');
  const context = (workspace: string) => contextOf(files, workspace);
  return {
    files,
    put,
    context,
    choose: (options: { at: string; isNamed?: boolean; context?: string }) =>
      chooseWorkspace(files, {
        ...{ config: '/config', data: '/data', workspace: options.at },
        ...{ isNamed: options.isNamed ?? false, context: options.context },
      }),
    names: async (kind: NameKind, workspace = '/prod') => {
      const own = context(workspace);
      await runCompletionNames(own, kind);
      return (own.host.answered as { names: readonly string[] }).names;
    },
  };
}

describe('chooseWorkspace()', () => {
  test('chooses by --context, else by --workspace, else the current directory if it is a workspace, else by the current context', async () => {
    const { context, choose } = await createUser();
    await runContextAdd(context('/prod'), 'prod', undefined);
    expect(await choose({ at: '/here' })).toBe('/here');
    await runContextUse(context('/here'), 'prod');
    expect(await choose({ at: '/here' })).toBe('/prod');
    expect(await choose({ at: '/ann' })).toBe('/ann');
    expect(await choose({ at: '/here', isNamed: true })).toBe('/here');
    expect(await choose({ at: '/ann', context: 'mini/demo' })).toBe('/data/mini/demo/workspace');
    await expect(choose({ at: '/here', context: 'nope' })).rejects.toMatchObject({
      code: 'contexts-unknown',
    });
  });

  test('refuses a current context whose local cluster is gone', async () => {
    const { files, context, choose } = await createUser();
    await runContextUse(context('/here'), 'mini/demo');
    await files.remove('/data/mini/demo/workspace/cluster.yaml');
    await expect(choose({ at: '/here' })).rejects.toMatchObject({
      code: 'contexts-unknown',
      message: 'current context not found',
    });
    expect(await choose({ at: '/prod' })).toBe('/prod');
  });

  test.each(['{', '[]', '{"version":2}', '{"version":1,"workspaces":{"a":"relative"}}'])(
    'refuses the damaged file %s',
    async (text) => {
      const { put, choose } = await createUser();
      await put('/config/contexts.json', text);
      await expect(choose({ at: '/here' })).rejects.toMatchObject({ code: 'contexts-file-damaged' });
    },
  );
});

describe('cluster context', () => {
  test('ls lists the contexts of the user and of local clusters', async () => {
    const { context } = await createUser();
    await runContextAdd(context('/prod'), 'prod', undefined);
    await runContextAdd(context('/here'), 'ann', '/ann');
    await runContextUse(context('/here'), 'ann');
    const own = context('/here');
    await runContextList(own);
    expect(own.host.answered).toEqual({
      contexts: [
        { name: 'ann', workspace: '/ann', isCurrent: true },
        { name: 'mini/demo', workspace: '/data/mini/demo/workspace', isCurrent: false },
        { name: 'prod', workspace: '/prod', isCurrent: false },
      ],
    });
  });

  test('add can be repeated, and refuses a directory that is no workspace, and a name that another workspace has', async () => {
    const { context } = await createUser();
    await runContextAdd(context('/prod'), 'prod', undefined);
    await runContextAdd(context('/prod'), 'prod', undefined);
    await expect(runContextAdd(context('/here'), 'here', undefined)).rejects.toMatchObject({
      code: 'contexts-no-workspace',
    });
    await expect(runContextAdd(context('/ann'), 'prod', undefined)).rejects.toMatchObject({
      code: 'contexts-taken',
      message: 'the context name prod is taken by workspace /prod',
    });
  });

  test('use and remove refuse an unknown name, and removing the current context leaves no current context', async () => {
    const { context, choose } = await createUser();
    await expect(runContextUse(context('/here'), 'nope')).rejects.toMatchObject({ code: 'contexts-unknown' });
    await expect(runContextRemove(context('/here'), 'nope')).rejects.toMatchObject({
      code: 'contexts-unknown',
    });
    await runContextAdd(context('/prod'), 'prod', undefined);
    await runContextUse(context('/here'), 'prod');
    await runContextRemove(context('/here'), 'prod');
    expect(await choose({ at: '/here' })).toBe('/here');
  });
});

describe('runCompletionNames()', () => {
  const nodes = (...names: readonly string[]): string =>
    JSON.stringify({ version: 1, nodes: names.map((name) => ({ name })) });

  test('prints names of contexts, local clusters and their machines', async () => {
    const { context, names } = await createUser();
    await runContextAdd(context('/prod'), 'prod', undefined);
    expect(await names('contexts')).toEqual(['mini/demo', 'prod']);
    expect(await names('local-clusters')).toEqual(['demo']);
    expect(await names('machines')).toEqual(['n1']);
  });

  test('prints the nodes that a curator listed last to the owner or operator of the workspace', async () => {
    const { put, names } = await createUser();
    expect(await names('nodes')).toEqual([]);
    await put('/prod/nodes.json', nodes('n1', 'n2'));
    await put('/ann/identity/nodes.json', nodes('n3'));
    expect([await names('nodes'), await names('nodes', '/ann')]).toEqual([['n1', 'n2'], ['n3']]);
  });

  test('leaves out names that a shell would not take as one word, and reads nothing from a damaged file', async () => {
    const { put, names } = await createUser();
    await put('/prod/nodes.json', nodes('n1', '$(reboot)', 'a b', '-f', '`id`'));
    expect(await names('nodes')).toEqual(['n1']);
    await put('/prod/nodes.json', '{');
    expect(await names('nodes')).toEqual([]);
  });
});
