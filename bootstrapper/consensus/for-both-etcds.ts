import { childSignal } from '../../internal/cleanup/index.ts';
import { ETCD_INSTANCES, type EtcdInstance, type EtcdName } from './etcd-instances.ts';

/** Work on both etcd clusters side by side. The first failure ends the other's work, and is thrown once that has ended. */
export async function forBothEtcds<T>(
  work: (etcd: EtcdInstance, signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
  dispose: (done: T) => void = () => undefined,
): Promise<Readonly<Record<EtcdName, T>>> {
  using life = childSignal(signal);
  let first: { readonly error: unknown } | undefined;
  const one = async (name: EtcdName): Promise<T | undefined> => {
    try {
      return await work(ETCD_INSTANCES[name], life.signal);
    } catch (error) {
      first ??= { error };
      life.abort(error);
      return undefined;
    }
  };
  const [state, kubernetes] = await Promise.all([one('state'), one('kubernetes')]);
  if (first === undefined) return { state: state as T, kubernetes: kubernetes as T };
  for (const done of [state, kubernetes]) if (done !== undefined) dispose(done);
  throw first.error;
}
