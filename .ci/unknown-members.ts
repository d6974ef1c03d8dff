/**
 * A lint rule against members that the receiving type does not have. TypeScript reports them only in an object literal that
 * is passed as it stands; behind a spread, a condition or a variable they pass silently, and when an optional member has
 * been renamed, the value is lost.
 */
import type { Rule } from 'eslint';
import ts from 'typescript';

interface Members {
  readonly all: ReadonlySet<string>;
  readonly optional: ReadonlySet<string>;
}

/** What a type can receive; undefined where it takes any name (index signatures, `unknown`, type parameters, functions). */
function membersOf(type: ts.Type, checker: ts.TypeChecker): Members | undefined {
  const all = new Set<string>();
  const optional = new Set<string>();
  for (const part of type.isUnion() ? type.types : [type]) {
    if ((part.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Null)) !== 0) continue;
    const properties = part.getProperties();
    const isClosed =
      (part.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0 &&
      checker.getIndexInfosOfType(part).length === 0 &&
      part.getCallSignatures().length === 0;
    if (!isClosed || properties.length === 0) return undefined;
    for (const { name, flags } of properties) {
      all.add(name);
      if ((flags & ts.SymbolFlags.Optional) !== 0) optional.add(name);
    }
  }
  return all.size === 0 ? undefined : { all, optional };
}

/** The object literals that an expression can be: behind parentheses, conditions and `&&`. */
function literalsOf(expression: ts.Node): readonly ts.ObjectLiteralExpression[] {
  if (ts.isParenthesizedExpression(expression)) return literalsOf(expression.expression);
  if (ts.isObjectLiteralExpression(expression)) return [expression];
  if (ts.isConditionalExpression(expression))
    return [...literalsOf(expression.whenTrue), ...literalsOf(expression.whenFalse)];
  return ts.isBinaryExpression(expression) ? literalsOf(expression.right) : [];
}

/** Members of a value whose type was inferred from an object literal; undefined for declared types, which others use too. */
function inferredMembers(type: ts.Type): readonly string[] | undefined {
  const isInferred = ((type.symbol as ts.Symbol | undefined)?.flags ?? 0) & ts.SymbolFlags.ObjectLiteral;
  return isInferred ? type.getProperties().map(({ name }) => name) : undefined;
}

/** The rule `unknown-members`. */
export const unknownMembers: Rule.RuleModule = {
  meta: {
    type: 'problem',
    schema: [],
    messages: { unknown: '"{{name}}" is not a member of the type that receives it: its value would be lost' },
  },
  create(context) {
    const { program, esTreeNodeToTSNodeMap: nodes } = context.sourceCode.parserServices as unknown as {
      readonly program: ts.Program;
      readonly esTreeNodeToTSNodeMap: { get(node: unknown): ts.Node };
    };
    const checker = program.getTypeChecker();
    const report = (node: Rule.Node, name: string): void =>
      context.report({ node, messageId: 'unknown', data: { name } });

    /** A variable lacks an optional member of its target and has one that the target does not know: probably renamed. */
    const checkVariable = (
      node: Rule.Node,
      target: ts.Type | undefined,
      others: ReadonlySet<string>,
    ): void => {
      const known = target && membersOf(target, checker);
      const own = inferredMembers(checker.getTypeAtLocation(nodes.get(node)));
      if (known === undefined || own === undefined) return;
      const isComplete = [...known.optional].every((name) => own.includes(name) || others.has(name));
      if (!isComplete) for (const name of own) if (!known.all.has(name)) report(node, name);
    };

    return {
      SpreadElement(node) {
        const outer = nodes.get(node.parent);
        const target = ts.isObjectLiteralExpression(outer) ? checker.getContextualType(outer) : undefined;
        const known = target && membersOf(target, checker);
        if (known === undefined) return;
        for (const { properties } of literalsOf(nodes.get(node.argument)))
          for (const { name } of properties)
            if (name !== undefined && !known.all.has(name.getText())) report(node, name.getText());
        const beside = checker.getTypeAtLocation(outer).getProperties();
        if (node.argument.type === 'Identifier')
          checkVariable(node.argument as Rule.Node, target, new Set(beside.map(({ name }) => name)));
      },
      'CallExpression > Identifier.arguments, NewExpression > Identifier.arguments, Property > Identifier.value, ReturnStatement > Identifier.argument'(
        node: Rule.Node,
      ) {
        const expression = nodes.get(node);
        if (ts.isExpression(expression))
          checkVariable(node, checker.getContextualType(expression), new Set());
      },
    };
  },
};
