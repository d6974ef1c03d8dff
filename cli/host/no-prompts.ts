import type { Secret } from '../../internal/secret/index.ts';

/** The answers of a host that cannot ask anybody: the default to each question, and no secret. */
export class NoPrompts {
  confirm(_question: string, defaultAnswer: boolean): Promise<boolean> {
    return Promise.resolve(defaultAnswer);
  }

  askSecrets(_questions: readonly string[]): Promise<readonly Secret<string>[] | undefined> {
    return Promise.resolve(undefined);
  }
}
