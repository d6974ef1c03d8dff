import { assertChildName, type Run, type TreeNode } from './node.ts';
import { RestartRequested, type Runnable, type Scope } from './runnable.ts';

/** What a scope may do to the tree. */
export interface ScopeHost {
  addGroup(parent: TreeNode, runnables: Readonly<Record<string, Runnable>>): void;
  markHealthy(node: TreeNode): void;
}

/** The scope of one life. Everything a runnable can get wrong is refused here, by name. */
export function createScope(host: ScopeHost, node: TreeNode, life: Run): Scope {
  const alive = (call: string): void => {
    if (!life.running) throw new Error(`${call} called after the end of this life: ${node.path}`);
  };
  const addGroup = (call: string, runnables: Readonly<Record<string, Runnable>>): void => {
    alive(call);
    if (node.state !== 'new') throw new Error(`${call} called after healthy(): ${node.path}`);
    const names = Object.keys(runnables);
    if (names.length === 0) throw new Error(`${call} called without a runnable: ${node.path}`);
    for (const name of names) assertChildName(node, name);
    host.addGroup(node, runnables);
  };
  return {
    signal: life.controller.signal,
    log: node.log,
    path: node.path,
    run: (name, runnable) => addGroup('run()', { [name]: runnable }),
    runGroup: (runnables) => addGroup('runGroup()', runnables),
    healthy() {
      alive('healthy()');
      if (node.state !== 'new') throw new Error(`healthy() called twice: ${node.path}`);
      host.markHealthy(node);
    },
    done() {
      alive('done()');
      if (node.state !== 'healthy') throw new Error(`done() called before healthy(): ${node.path}`);
      if (life.saidDone) throw new Error(`done() called twice: ${node.path}`);
      life.saidDone = true;
    },
    waiting(what) {
      alive('waiting()');
      node.note = what;
    },
    restart(reason) {
      alive('restart()');
      throw new RestartRequested(reason);
    },
  };
}
