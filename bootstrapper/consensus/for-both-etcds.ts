import { childSignal } from '../../internal/cleanup/index.ts';
import { ETCD_INSTANCES, type EtcdInstance, type EtcdName } from './etcd-instances.ts';

/**
 * Runs `work` for both etcd clusters in parallel. The first failure aborts the work for the other cluster and
 * is thrown once that work has ended. `dispose` is called for the result that is then not returned.
 */
export async function forBothEtcds<T>(
  work: (etcd: EtcdInstance, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
  dispose: (done: T) => void = () => undefined,
): Promise<Readonly<Record<EtcdName, T>>> {
  using running = childSignal(signal);
  let first: { readonly error: unknown } | undefined;
  const one = async (name: EtcdName): Promise<T | undefined> => {
    try {
      return await work(ETCD_INSTANCES[name], running.signal);
    } catch (error) {
      first ??= { error };
      running.abort(error);
      return undefined;
    }
  };
  const [state, kubernetes] = await Promise.all([one('state'), one('kubernetes')]);
  if (first === undefined) return { state: state as T, kubernetes: kubernetes as T };
  for (const done of [state, kubernetes]) if (done !== undefined) dispose(done);
  throw first.error;
}
