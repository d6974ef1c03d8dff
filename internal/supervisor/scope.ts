import { assertChildName, type Run, type TreeNode } from './node.ts';
import { RestartRequested, type Runnable, type Scope } from './runnable.ts';

/** The operations of a scope on the tree. */
export interface ScopeHost {
  addGroup(parent: TreeNode, runnables: Readonly<Record<string, Runnable>>): void;
  recordHealthy(node: TreeNode): void;
}

/** The scope of one run, which refuses misuse with an error that names the path. */
export function createScope(host: ScopeHost, node: TreeNode, run: Run): Scope {
  const alive = (call: string): void => {
    if (!run.running) throw new Error(`${call} called after the end of this run: ${node.path}`);
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
    signal: run.controller.signal,
    log: node.log,
    path: node.path,
    run: (name, runnable) => addGroup('run()', { [name]: runnable }),
    runGroup: (runnables) => addGroup('runGroup()', runnables),
    healthy() {
      alive('healthy()');
      if (node.state !== 'new') throw new Error(`healthy() called twice: ${node.path}`);
      host.recordHealthy(node);
    },
    done() {
      alive('done()');
      if (node.state !== 'healthy') throw new Error(`done() called before healthy(): ${node.path}`);
      if (run.saidDone) throw new Error(`done() called twice: ${node.path}`);
      run.saidDone = true;
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
