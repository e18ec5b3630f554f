(function () {
  "use strict";
  const { apply, construct, ownKeys, getOwnPropertyDescriptor: describe, defineProperty: define, deleteProperty: remove } = Reflect;
  const { getPrototypeOf, setPrototypeOf } = Reflect;
  const { create, is, prototype: ObjectPrototype } = Object;
  const { isArray, prototype: ArrayPrototype } = Array;
  const { parse, stringify } = JSON;
  const { isFinite, isSafeInteger } = Number;
  const { hasOwnProperty, toString: tagOf } = ObjectPrototype;
  const { toStringTag } = Symbol;
  const { slice, charCodeAt } = String.prototype;
  const { has: mapHas, set: mapSet } = Map.prototype;
  const Fault = Error;
  const Clock = Date;
  const ABSENT = { __proto__: null };
  const BRANDS = [[Date.prototype, "Date"], [RegExp.prototype, "RegExp"], [Map.prototype, "Map"], [Set.prototype, "Set"],
    [Promise.prototype, "Promise"], [Error.prototype, "Error"], [String.prototype, "String object"], [Number.prototype, "Number object"],
    [Boolean.prototype, "Boolean object"], [Function.prototype, "function"]];
  const NAMES = BRANDS.length;
  const fixed = (value) => ({ __proto__: null, value, writable: true, enumerable: false, configurable: true });

  let broke = null;
  let readExport;
  function refuse(what, isCall) {
    const fault = new Fault(what);
    if (broke === null) broke = { __proto__: null, what, stack: isCall ? fault.stack : "" };
    throw fault;
  }
  function forbid(owner, name, what) {
    const ask = () => refuse(what, false);
    define(owner, name, { __proto__: null, get: ask, set: ask, enumerable: false, configurable: false });
  }
  function forbidCall(owner, name, what) {
    define(owner, name, { __proto__: null, value: function () { return refuse(what, true); }, writable: false, enumerable: false, configurable: false });
  }

  const Day = function Date(...given) {
    if (new.target === undefined || given.length === 0) return refuse("the clock: `Date` without a date", true);
    return construct(Clock, given, new.target);
  };
  define(Day, "prototype", { __proto__: null, value: Clock.prototype, writable: false });
  define(Day, "length", { __proto__: null, value: 7, writable: false, enumerable: false, configurable: true });
  define(Clock.prototype, "constructor", fixed(Day));
  define(Day, "parse", fixed(Clock.parse));
  define(Day, "UTC", fixed(Clock.UTC));
  forbidCall(Day, "now", "the clock: `Date.now`");
  define(globalThis, "Date", fixed(Day));
  forbidCall(Math, "random", "chance: `Math.random`");
  for (const name of ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "exp", "expm1", "hypot", "log", "log10", "log1p",
    "log2", "pow", "sin", "sinh", "tan", "tanh"]) forbidCall(Math, name, "the last digits of `Math." + name + "`");
  function check(owner, name, differs) {
    const real = owner[name];
    const checked = { [name](...given) {
      if (differs(this, given)) refuse("`" + name + "` of what differs from engine to engine", true);
      return apply(real, this, given);
    } }[name];
    define(checked, "length", { __proto__: null, value: real.length, writable: false, enumerable: false, configurable: true });
    define(owner, name, fixed(checked));
  }
  check(Number.prototype, "toString", (self, given) => given[0] !== undefined && given[0] !== 10 && !isSafeInteger(typeof self === "number" ? self : NaN));
  for (const name of ["toLowerCase", "toUpperCase", "normalize"]) check(String.prototype, name, (self) => {
    if (typeof self !== "string") return true;
    for (let i = 0; i < self.length; i += 1) if (apply(charCodeAt, self, [i]) > 0x24f) return true;
    return false;
  });
  for (const [owner, names] of [[Number.prototype, ["toLocaleString"]], [BigInt.prototype, ["toLocaleString"]], [Array.prototype, ["toLocaleString"]],
    [String.prototype, ["localeCompare", "toLocaleLowerCase", "toLocaleUpperCase"]],
    [Clock.prototype, ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]]]) {
    for (const name of names) forbidCall(owner, name, "the language of the machine: `" + name + "`");
  }
  forbidCall(getPrototypeOf(refuse), "toString", "the text of a function");
  for (const [owner, names] of [
    [ArrayPrototype, ["findLastIndex", "toSpliced", "with"]], [Array, ["fromAsync"]], [Object, ["groupBy"]], [Map, ["groupBy"]],
    [String.prototype, ["isWellFormed", "toWellFormed"]], [Promise, ["withResolvers", "try"]],
    [ArrayBuffer.prototype, ["maxByteLength", "resizable", "resize", "transfer", "transferToFixedLength", "detached"]],
    [getPrototypeOf(Uint8Array.prototype), ["at", "findLast", "findLastIndex", "toReversed", "toSorted", "with"]],
    [Set.prototype, ["union", "intersection", "difference", "symmetricDifference", "isSubsetOf", "isSupersetOf", "isDisjointFrom"]],
    [Symbol, ["dispose", "asyncDispose"]], [RegExp.prototype, ["hasIndices", "unicodeSets", "compile"]], [Math, ["f16round", "sumPrecise"]],
    [RegExp, ["escape", "input", "$_", "lastMatch", "$&", "lastParen", "$+", "leftContext", "$`", "rightContext", "$'", "$1", "$2", "$3", "$4", "$5", "$6",
      "$7", "$8", "$9"]], [Error, ["captureStackTrace", "stackTraceLimit", "prepareStackTrace", "isError"]], [Error.prototype, ["cause"]],
    [getPrototypeOf(getPrototypeOf([][Symbol.iterator]())), ["map", "filter", "take", "drop", "flatMap", "reduce", "toArray", "forEach", "some", "every",
      "find"]],
    [JSON, ["rawJSON", "isRawJSON"]]]) {
    for (const name of names) if (!has(owner, name)) forbid(owner, name, "`" + name + "`");
  }

  for (const [owner, names] of [[Object, ["__getClass"]], [String.prototype, ["__quote"]],
    [BigInt, ["cdiv", "cdivrem", "ctz", "ediv", "edivrem", "fdiv", "fdivrem", "floorLog2", "sqrt", "sqrtrem", "tdiv", "tdivrem"]]]) {
    for (const name of names) remove(owner, name);
  }

  for (const maker of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    forbid(getPrototypeOf(maker), "constructor", "code made from text: the constructor of functions");
  }

  const quiet = {};
  for (const name of ["log", "info", "warn", "error", "debug", "trace", "table", "dir", "group", "groupEnd", "time", "timeEnd", "assert", "count"]) {
    define(quiet, name, fixed((...given) => {
      for (let i = 0; i < given.length; i += 1) {
        if ((typeof given[i] === "object" && given[i] !== null) || typeof given[i] === "function") refuse("`console` with an object", true);
      }
    }));
  }
  define(globalThis, "console", fixed(quiet));

  const { sort: nativeSort, reverse, slice: cut } = ArrayPrototype;
  function sort(order) {
    if (order !== undefined) refuse("`sort` with a function", true);
    const { length } = isArray(this) ? this : refuse("`sort` of what is no list", true);
    for (let i = 0; i < length; i += 1) {
      const own = describe(this, i);
      const item = own === undefined ? "" : has(own, "value") ? own.value : own;
      if ((typeof item === "object" && item !== null) || typeof item === "function") refuse("`sort` of objects", true);
    }
    return apply(nativeSort, this, []);
  }
  const added = {
    at(index) {
      let place = +index;
      place = place !== place ? 0 : place < 0 ? -((-place) - ((-place) % 1)) + this.length : place - (place % 1);
      return place < 0 || place >= this.length ? undefined : this[place];
    },
    hasOwn(owner, name) { return apply(hasOwnProperty, owner, [name]); },
    toSorted(order) { return apply(sort, apply(cut, this, []), [order]); },
    toReversed() { return apply(reverse, apply(cut, this, []), []); },
    findLast(test) {
      for (let i = this.length - 1; i >= 0; i -= 1) if (apply(test, arguments[1], [this[i], i, this])) return this[i];
      return undefined;
    },
  };
  added.sort = { sort(order) { return apply(sort, this, [order]); } }.sort;
  forbidCall(getPrototypeOf(Uint8Array.prototype), "sort", "`sort` of numbers in a buffer");
  for (const name of ["at", "findLast", "sort", "toReversed", "toSorted"]) define(Array.prototype, name, fixed(added[name]));
  define(String.prototype, "at", fixed(added.at));
  define(Object, "hasOwn", fixed(added.hasOwn));

  let nodes = 0;
  let units = 0;
  let count = 0;
  let stopped = null;
  let stoppedAt = 0;
  const trail = create(null);
  const above = create(null);
  const notes = bare([]);
  let isTagged = false;

  function bare(list) { setPrototypeOf(list, null); return list; }
  function stop(why, depth) { stopped = why; stoppedAt = depth < 12 ? depth : 12; throw ABSENT; }
  function place(depth) {
    const path = bare([]);
    for (let i = 0; i < depth; i += 1) path[i] = trail[i];
    return path;
  }
  function note(depth, kind) {
    if (count >= MAX_NOTES) stop("notes", depth);
    const one = create(null);
    one.path = place(depth);
    one.kind = kind;
    notes[count] = one;
    count += 1;
  }
  function has(owner, name) { return apply(hasOwnProperty, owner, [name]); }
  function spend(amount, depth) { units += amount; if (units > MAX_TEXT) stop("text", depth); }

  const builtIns = bare([]);
  const learned = new Map();
  function learn(value, name) {
    if (typeof value === "function" ? !has(value, "prototype") : typeof value !== "object" || value === null) return;
    if (apply(mapHas, learned, [value])) return;
    apply(mapSet, learned, [value, true]);
    const one = { __proto__: null, value, name, parent: getPrototypeOf(value), own: create(null) };
    builtIns[builtIns.length] = one;
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i += 1) {
      const own = describe(value, keys[i]);
      one.own[keys[i]] = bare(own);
      const inner = typeof keys[i] === "symbol" ? name + "[symbol]" : name === "" ? keys[i] : name + "." + keys[i];
      learn(own.value, inner);
    }
    learn(one.parent, name + ".__proto__");
  }
  function learnAll() {
    learn(globalThis, "");
    const iterators = [[][Symbol.iterator](), ""[Symbol.iterator](), new Map().entries(), new Set().entries(), "".matchAll(/x/g), (function* () {})(),
      (async function* () {})(), async function () {}];
    for (let i = 0; i < iterators.length; i += 1) learn(getPrototypeOf(iterators[i]), "iterator");
  }
  for (const name of ["getOwnPropertyNames", "getOwnPropertySymbols", "getOwnPropertyDescriptor", "getOwnPropertyDescriptors", "hasOwn"]) {
    check(Object, name, (self, given) => apply(mapHas, learned, [given[0]]));
  }
  for (const name of ["hasOwnProperty", "propertyIsEnumerable"]) check(ObjectPrototype, name, (self) => apply(mapHas, learned, [self]));
  function changed(name, key) {
    note(0, "change of the built-in `" + (typeof key === "symbol" ? name + "[symbol]" : name === "" ? key : name + "." + key) + "`");
  }
  function compareAll() {
    for (let i = 0; i < builtIns.length && count < 20; i += 1) {
      const { value, name, parent, own } = builtIns[i];
      if (getPrototypeOf(value) !== parent) changed(name, "__proto__");
      const now = ownKeys(value);
      for (let j = 0; j < now.length; j += 1) if (own[now[j]] === undefined) changed(name, now[j]);
      const before = ownKeys(own);
      for (let j = 0; j < before.length; j += 1) {
        const was = own[before[j]];
        const found = describe(value, before[j]);
        const isSame = found !== undefined && has(found, "value") === has(was, "value") && found.enumerable === was.enumerable
          && (has(was, "value") ? is(found.value, was.value) && found.writable === was.writable : found.get === was.get && found.set === was.set);
        if (!isSame) changed(name, before[j]);
      }
    }
  }

  function converts(value) {
    for (let i = 0; value !== null && value !== ObjectPrototype && value !== ArrayPrototype && i < 1000; i += 1) {
      const own = describe(value, "toJSON");
      if (own !== undefined) return !has(own, "value") || typeof own.value === "function";
      value = getPrototypeOf(value);
    }
    return false;
  }
  function judge(value, depth, isList) {
    const parent = getPrototypeOf(value);
    const isPlain = isList ? parent === ArrayPrototype : parent === ObjectPrototype || parent === null;
    if (!isPlain) {
      let kind = "object of a class";
      for (let i = 0; i < NAMES; i += 1) if (BRANDS[i][0] === parent) kind = BRANDS[i][1];
      note(depth, kind);
    } else if (!isTagged && describe(value, toStringTag) === undefined) {
      const tag = apply(tagOf, value, []);
      if (tag !== (isList ? "[object Array]" : "[object Object]")) note(depth, apply(slice, tag, [8, -1]) + " object");
    }
    if (converts(value)) note(depth, "toJSON");
    return isPlain;
  }

  function copy(value, depth) {
    nodes += 1;
    if (nodes > MAX_NODES) stop("nodes", depth);
    const type = typeof value;
    if (type === "string") { spend(value.length, depth); return value; }
    if (type === "boolean" || value === null) return value;
    if (type === "number") {
      if (isFinite(value)) return value;
      note(depth, value !== value ? "NaN" : "Infinity");
      return null;
    }
    if (type === "undefined") return ABSENT;
    if (type !== "object") { note(depth, type); return ABSENT; }
    for (let i = 0; i < depth; i += 1) if (above[i] === value) stop("cycle", depth);
    if (depth >= MAX_DEPTH) stop("depth", depth);
    above[depth] = value;
    const isList = isArray(value);
    const isPlain = judge(value, depth, isList);
    return isList ? copyList(value, depth) : copyObject(value, depth, isPlain);
  }
  function copyList(value, depth) {
    const { length } = value;
    if (length > MAX_NODES - nodes) stop("nodes", depth);
    const list = bare([]);
    let present = 0;
    for (let i = 0; i < length; i += 1) {
      trail[depth] = i;
      const own = describe(value, i);
      let item = null;
      if (own !== undefined) {
        present += 1;
        if (has(own, "value")) item = copy(own.value, depth + 1);
        else note(depth + 1, "accessor");
      }
      if (own === undefined || (item === ABSENT && own.value === undefined)) { note(depth + 1, "undefined"); nodes += 1; }
      list[i] = item === ABSENT ? null : item;
    }
    if (ownKeys(value).length !== present + 1) note(depth, "named member of a list");
    return list;
  }
  function copyObject(value, depth, isPlain) {
    const plain = create(null);
    const keys = ownKeys(value);
    const { length } = keys;
    if (length > MAX_NODES - nodes) stop("nodes", depth);
    for (let i = 0; i < length; i += 1) {
      const key = keys[i];
      const own = describe(value, key);
      if (typeof key === "symbol") { note(depth, "symbol as a key"); continue; }
      trail[depth] = key;
      if (!own.enumerable) {
        if (!isPlain) continue;
        note(depth + 1, "hidden property");
      }
      spend(key.length, depth + 1);
      if (!has(own, "value")) { note(depth + 1, "accessor"); continue; }
      const item = copy(own.value, depth + 1);
      if (item !== ABSENT) plain[key] = item;
    }
    return plain;
  }

  function textOf(value, name) {
    for (let i = 0; value !== null && i < 20; i += 1) {
      const own = describe(value, name);
      if (own !== undefined) return has(own, "value") && typeof own.value === "string" ? apply(slice, own.value, [0, 2000]) : "";
      value = getPrototypeOf(value);
    }
    return "";
  }
  function thrown(error) {
    const answer = create(null);
    answer.outcome = "threw";
    const isThing = (typeof error === "object" && error !== null) || typeof error === "function";
    answer.name = isThing ? textOf(error, "name") : "";
    answer.message = isThing ? textOf(error, "message") : typeof error === "symbol" ? "a symbol" : apply(slice, "" + error, [0, 2000]);
    answer.stack = isThing ? textOf(error, "stack") : "";
    return answer;
  }
  function used() {
    broke.outcome = "used";
    return broke;
  }
  function guard(work) {
    try { return stringify(work()); } catch (error) { return stringify(broke !== null ? used() : thrown(error)); }
  }

  function run(module) {
    learnAll();
    readExport = apply(module, undefined, []);
    const answer = create(null);
    answer.outcome = "ran";
    return answer;
  }
  function deliver() {
    if (broke !== null) return used();
    const answer = create(null);
    const exported = apply(readExport, undefined, []);
    if (typeof exported !== "object" || exported === null || isArray(exported)) {
      answer.outcome = "no object";
      answer.kind = exported === null ? "null" : isArray(exported) ? "a list" : typeof exported;
      return answer;
    }
    let plain;
    try {
      if (describe(ObjectPrototype, "toJSON") !== undefined || describe(ArrayPrototype, "toJSON") !== undefined) note(0, "toJSON of every object");
      isTagged = describe(ObjectPrototype, toStringTag) !== undefined || describe(ArrayPrototype, toStringTag) !== undefined;
      compareAll();
      plain = copy(exported, 0);
    } catch (error) {
      if (error !== ABSENT) throw error;
      answer.outcome = "too much";
      answer.why = stopped;
      answer.path = place(stoppedAt);
      return answer;
    }
    answer.outcome = "copied";
    answer.main = stringify(plain);
    answer.tools = plain.tools === undefined ? "{}" : stringify(plain.tools);
    answer.notes = notes;
    return answer;
  }
  return function (task, given) {
    if (task === "run") return guard(function () { return run(given); });
    if (task === "deliver") return guard(deliver);
    for (const [name, what] of parse(given)) if (task === "forbid" || !has(globalThis, name)) forbid(globalThis, name, what);
    return "";
  };
})()
