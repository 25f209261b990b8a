// RUN: ztc-opt %s --ztc-verify-backward --split-input-file --verify-diagnostics

// expected-error@+1 {{B1: the module has no @microstep}}
module {}

// -----

module {
  // expected-error@+1 {{'func.func' op B1: the module holds more than microstep, update, eval, generate}}
  func.func @forward() attributes {graph.entry = #graph.entry<forward>} {
    return
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  // expected-error@+1 {{'func.func' op B2: returns 1 values, expected 2}}
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @update() attributes {graph.entry = #graph.entry<update>} {
    return
  }
  func.func @eval() attributes {graph.entry = #graph.entry<eval>} {
    return
  }
  func.func @generate() attributes {graph.entry = #graph.entry<generate>} {
    return
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  // expected-error@+1 {{'func.func' op B3: argument 2 should be the gradient of 'w'}}
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "v"}) attributes {graph.entry = #graph.entry<update>} {
    return
  }
  func.func @eval() attributes {graph.entry = #graph.entry<eval>} {
    return
  }
  func.func @generate() attributes {graph.entry = #graph.entry<generate>} {
    return
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  // expected-error@+1 {{B4: returns 2 values, expected 1}}
  func.func @eval(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32>) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @generate(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %p: tensor<i32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    return %logits : tensor<1x16xf32>
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  func.func @eval(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss : tensor<f32>
  }
  // expected-error@+1 {{B5: result 0}}
  func.func @generate(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %p: tensor<i32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<2x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<2x16xf32>
    return %logits : tensor<2x16xf32>
  }
}

// -----

// expected-error@+1 {{B5: the module has no graph.vocabulary}}
module {
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  func.func @eval(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @generate(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %p: tensor<i32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    return %logits : tensor<1x16xf32>
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  func.func @eval(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @generate(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %p: tensor<i32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    return %logits : tensor<1x16xf32>
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  func.func @eval(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %u: tensor<8xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss : tensor<f32>
  }
  func.func @generate(%t: tensor<8xi32> {graph.role = #graph.role<tokens>}, %p: tensor<i32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<2x8x4xf32> {graph.result = #graph.result<cache>, graph.name = "keys.0"}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    %keys = graph.constant dense<0.0> : tensor<2x8x4xf32>
    return %logits, %keys : tensor<1x16xf32>, tensor<2x8x4xf32>
  }
  // expected-error@+1 {{B6: returns 1 values, expected 2}}
  func.func @decode(%t: tensor<1xi32> {graph.role = #graph.role<tokens>}, %p: tensor<i32> {graph.role = #graph.role<position>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %k: tensor<2x8x4xf32> {graph.role = #graph.role<cache>, graph.name = "keys.0"})
      -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<decode>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    return %logits : tensor<1x16xf32>
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %u: tensor<2x4xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  func.func @eval(%t: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %u: tensor<2x4xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<2xf32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<2xf32>
    return %loss : tensor<2xf32>
  }
  func.func @generate(%t: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %p: tensor<2xi32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %k: tensor<2x1x4x4xf32> {graph.role = #graph.role<cache>, graph.name = "keys.0"})
      -> (tensor<2x16xf32> {graph.result = #graph.result<logits>}, tensor<2x1x4x4xf32> {graph.result = #graph.result<cache>, graph.name = "keys.0"}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<2x16xf32>
    return %logits, %k : tensor<2x16xf32>, tensor<2x1x4x4xf32>
  }
  func.func @decode(%t: tensor<1x1xi32> {graph.role = #graph.role<tokens>}, %p: tensor<1xi32> {graph.role = #graph.role<position>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %k: tensor<1x4x4xf32> {graph.role = #graph.role<cache>, graph.name = "keys.0"})
      -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<1x4x4xf32> {graph.result = #graph.result<cache>, graph.name = "keys.0"}) attributes {graph.entry = #graph.entry<decode>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    return %logits, %k : tensor<1x16xf32>, tensor<1x4x4xf32>
  }
  // Of two sequences two rows of logits.
  // expected-error@+1 {{B6: result 0}}
  func.func @decode_rows(%t: tensor<2x1xi32> {graph.role = #graph.role<tokens>}, %p: tensor<2xi32> {graph.role = #graph.role<position>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                         %k: tensor<2x1x4x4xf32> {graph.role = #graph.role<cache>, graph.name = "keys.0"})
      -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<2x1x4x4xf32> {graph.result = #graph.result<cache>, graph.name = "keys.0"}) attributes {graph.entry = #graph.entry<decode_rows>} {
    %logits = graph.constant dense<0.0> : tensor<1x16xf32>
    return %logits, %k : tensor<1x16xf32>, tensor<2x1x4x4xf32>
  }
}

// -----

module attributes {graph.vocabulary = 16 : i64} {
  func.func @microstep(%t: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %u: tensor<2x4xi32> {graph.role = #graph.role<targets>}, %s: tensor<16xf32> {graph.role = #graph.role<step>},
                       %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    %loss = graph.constant dense<0.0> : tensor<f32>
    return %loss, %w : tensor<f32>, tensor<4xf32>
  }
  func.func @update(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                    %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}, %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"},
                    %v: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"})
      -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}, tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.name = "w"},
          tensor<4xf32> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.name = "w"}, tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>}) attributes {graph.entry = #graph.entry<update>} {
    %n = graph.constant dense<0.0> : tensor<f32>
    %f = graph.constant dense<true> : tensor<i1>
    return %w, %m, %v, %n, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<i1>
  }
  // A loss for each of two sequences, not four.
  // expected-error@+1 {{B4: result 0}}
  func.func @eval(%t: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %u: tensor<2x4xi32> {graph.role = #graph.role<targets>},
                  %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<4xf32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %loss = graph.constant dense<0.0> : tensor<4xf32>
    return %loss : tensor<4xf32>
  }
  func.func @generate(%t: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %p: tensor<2xi32> {graph.role = #graph.role<position>},
                      %w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<2x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
    %logits = graph.constant dense<0.0> : tensor<2x16xf32>
    return %logits : tensor<2x16xf32>
  }
}
